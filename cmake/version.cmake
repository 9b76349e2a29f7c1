# SPDX-License-Identifier: Apache-2.0
# The version stands once, in the public header; everything else reads it from there.
foreach(part MAJOR MINOR PATCH)
  file(STRINGS ${CMAKE_CURRENT_LIST_DIR}/../include/fovea/fovea.h line REGEX "^#define FOVEA_VERSION_${part} +[0-9]+$")
  string(REGEX MATCH "[0-9]+" FOVEA_VERSION_${part} "${line}")
endforeach()
set(FOVEA_VERSION ${FOVEA_VERSION_MAJOR}.${FOVEA_VERSION_MINOR}.${FOVEA_VERSION_PATCH})
