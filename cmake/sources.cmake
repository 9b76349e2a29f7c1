# SPDX-License-Identifier: Apache-2.0
# fovea_sources(OUT DIR...): every C and C++ source file below the folders, found again when one is added or removed.
function(fovea_sources out)
  set(patterns "")
  foreach(dir IN LISTS ARGN)
    list(APPEND patterns ${CMAKE_CURRENT_SOURCE_DIR}/${dir}/*.cpp ${CMAKE_CURRENT_SOURCE_DIR}/${dir}/*.c)
  endforeach()
  file(GLOB_RECURSE files CONFIGURE_DEPENDS ${patterns})
  set(${out} ${files} PARENT_SCOPE)
endfunction()
