# SPDX-License-Identifier: Apache-2.0
# Language level, warnings, sanitizers and instruction set, the same for every target of this tree.
include(GNUInstallDirs)

set(CMAKE_CXX_STANDARD 20)
set(CMAKE_CXX_STANDARD_REQUIRED ON)
set(CMAKE_CXX_EXTENSIONS OFF)
set(CMAKE_C_STANDARD 11)
set(CMAKE_C_STANDARD_REQUIRED ON)
set(CMAKE_C_EXTENSIONS OFF)
set(CMAKE_POSITION_INDEPENDENT_CODE ON)
set(CMAKE_CXX_VISIBILITY_PRESET hidden)
set(CMAKE_C_VISIBILITY_PRESET hidden)
set(CMAKE_VISIBILITY_INLINES_HIDDEN ON)

if(PROJECT_IS_TOP_LEVEL)
  set(CMAKE_EXPORT_COMPILE_COMMANDS ON)
  set(CMAKE_RUNTIME_OUTPUT_DIRECTORY ${PROJECT_BINARY_DIR}/bin)
  find_program(FOVEA_CCACHE ccache)
  if(FOVEA_CCACHE AND NOT CMAKE_CXX_COMPILER_LAUNCHER)
    set(CMAKE_C_COMPILER_LAUNCHER ${FOVEA_CCACHE})
    set(CMAKE_CXX_COMPILER_LAUNCHER ${FOVEA_CCACHE})
  endif()
endif()

# No contraction of a * b + c: results must not depend on what the optimiser fuses. Kernels that want FMA call MulAdd.
add_compile_options(-ffp-contract=off)

# GCC notes an ABI change of 256-bit vectors that never cross a library border here.
add_compile_options(-Wall -Wextra -Wpedantic -Wshadow -Wvla -Wundef -Wno-psabi
                    $<$<COMPILE_LANGUAGE:CXX>:-Wnon-virtual-dtor>
                    $<$<COMPILE_LANGUAGE:CXX>:-Woverloaded-virtual>)
if(FOVEA_WERROR)
  add_compile_options(-Werror)
endif()

if(FOVEA_CPU_ARCH)
  add_compile_options(-march=${FOVEA_CPU_ARCH})
endif()

if(FOVEA_SANITIZE)
  list(JOIN FOVEA_SANITIZE "," sanitizers)
  add_compile_options(-fsanitize=${sanitizers} -fno-sanitize-recover=all -fno-omit-frame-pointer)
  add_link_options(-fsanitize=${sanitizers})
  # Symbols of libcuda.so, a stand-in's included, are called by types of our own.
  add_compile_options($<$<CXX_COMPILER_ID:Clang>:-fno-sanitize=function>)
  # Instrumented code hides initialisations from this analysis: it warns about correct code.
  add_compile_options($<$<CXX_COMPILER_ID:GNU>:-Wno-maybe-uninitialized>)
endif()

# Coverage for libFuzzer, which steers by it.
if(FOVEA_FUZZ)
  add_compile_options(-fsanitize=fuzzer-no-link)
endif()

find_package(Threads REQUIRED)
find_package(hwy 1.0.3 REQUIRED CONFIG)

# Kernel targets, in one place because each one costs compile time. x86: SSE4 (the floor), AVX2 and AVX3 (AVX-512),
# which is what Highway attains above FOVEA_CPU_ARCH; Arm: NEON alone. AES is not used, so it need not be there.
add_library(fovea_highway INTERFACE)
target_link_libraries(fovea_highway INTERFACE hwy::hwy)
target_compile_definitions(fovea_highway INTERFACE
  HWY_DISABLE_PCLMUL_AES
  $<IF:$<BOOL:${FOVEA_CPU_STATIC}>,HWY_COMPILE_ONLY_STATIC,HWY_DISABLED_TARGETS=HWY_SVE|HWY_SVE_256|HWY_SVE2|HWY_SVE2_128>)
