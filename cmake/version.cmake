# SPDX-License-Identifier: Apache-2.0
# The version stands once, in the public header; everything else reads it from there.
set(FOVEA_VERSION_HEADER ${CMAKE_CURRENT_LIST_DIR}/../include/fovea/fovea.h)
set(FOVEA_VERSION 0.1.0)
if(EXISTS ${FOVEA_VERSION_HEADER})
  set(parts "")
  foreach(part MAJOR MINOR PATCH)
    file(STRINGS ${FOVEA_VERSION_HEADER} line REGEX "^#define FOVEA_VERSION_${part} +[0-9]+")
    string(REGEX MATCH "[0-9]+" number "${line}")
    list(APPEND parts "${number}")
  endforeach()
  list(JOIN parts "." FOVEA_VERSION)
endif()
