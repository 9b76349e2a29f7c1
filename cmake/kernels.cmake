# SPDX-License-Identifier: Apache-2.0
# The sources of device kernels become a table in the library; bundles are compiled from it by NVRTC, which needs neither
# a device nor a toolkit.

# fovea_embed(OUTPUT TABLE ROOTS FILE...): a source file with the texts of the files; ROOTS are joined by |.
function(fovea_embed output table roots)
  string(REPLACE ";" "|" files "${ARGN}")
  add_custom_command(
    OUTPUT ${output}
    COMMAND ${CMAKE_COMMAND} "-DROOTS=${roots}" "-DFILES=${files}" -DTABLE=${table} -DOUTPUT=${output}
            -P ${PROJECT_SOURCE_DIR}/cmake/embed.cmake
    DEPENDS ${ARGN} ${PROJECT_SOURCE_DIR}/cmake/embed.cmake
    COMMENT "Embedding kernel sources"
    VERBATIM)
endfunction()

# fovea_bundle makes them; with FOVEA_CUDA_ARCHS they are a part of every build.
function(fovea_kernel_bundles)
  add_executable(fovea_bundle EXCLUDE_FROM_ALL ${PROJECT_SOURCE_DIR}/tools/fovea_bundle.cpp)
  target_link_libraries(fovea_bundle PRIVATE fovea_internal)
  if(NOT FOVEA_CUDA_ARCHS)
    return()
  endif()
  list(JOIN FOVEA_CUDA_ARCHS "," archs)
  set(command fovea_bundle --archs ${archs} --output ${PROJECT_BINARY_DIR}/kernels)
  foreach(place IN LISTS FOVEA_NVRTC)
    list(APPEND command --nvrtc ${place})
  endforeach()
  set(stamp ${PROJECT_BINARY_DIR}/kernels.stamp)
  add_custom_command(OUTPUT ${stamp} COMMAND ${command} COMMAND ${CMAKE_COMMAND} -E touch ${stamp}
                     DEPENDS fovea_bundle COMMENT "Compiling kernels for ${archs}" USES_TERMINAL VERBATIM)
  add_custom_target(fovea_kernels ALL DEPENDS ${stamp})
endfunction()
