# SPDX-License-Identifier: Apache-2.0
# Every build switch. CONTRIBUTING.md holds the same table with words for people; keep a row there for each row here.
option(BUILD_SHARED_LIBS "Build libfovea as a shared library" OFF)
option(FOVEA_BUILD_APPS "Build the `fovea` command and its engine" ${PROJECT_IS_TOP_LEVEL})
option(FOVEA_BUILD_TESTS "Build the tests" ${PROJECT_IS_TOP_LEVEL})
option(FOVEA_BUILD_BENCH "Build the benchmarks" OFF)
option(FOVEA_BUILD_PYTHON "Build the Python package (nanobind from PyPI)" OFF)
option(FOVEA_INSTALL "Create the install rules" ${PROJECT_IS_TOP_LEVEL})
option(FOVEA_WERROR "Treat warnings as errors" ${PROJECT_IS_TOP_LEVEL})
set(FOVEA_SANITIZE "" CACHE STRING "Sanitizers, for example \"address;undefined\"")
option(FOVEA_FUZZ "Build the libFuzzer programs of tests/fuzz (clang; target fuzz_targets)" OFF)
option(FOVEA_CPU_STATIC "Compile the CPU kernels for one instruction set (FOVEA_CPU_ARCH), without run-time dispatch" OFF)
set(FOVEA_CUDA_ARCHS "" CACHE STRING "Architectures to build kernel bundles for, for example \"80;90a\", or all")
set(FOVEA_NVRTC "" CACHE STRING "libnvrtc files or folders that hold it, for the bundles; empty: where it is found")

# The -march of the whole tree: with dispatch it is the floor (SSE4.2 on x86), without it is also the only kernel target.
if(CMAKE_SYSTEM_PROCESSOR MATCHES "^(x86_64|AMD64|amd64)$")
  if(FOVEA_CPU_STATIC)
    set(fovea_default_arch x86-64-v3)
  else()
    set(fovea_default_arch x86-64-v2)
  endif()
endif()
set(FOVEA_CPU_ARCH "${fovea_default_arch}" CACHE STRING "Value of -march for the whole tree; empty: the compiler's default")

if(NOT CMAKE_BUILD_TYPE AND NOT CMAKE_CONFIGURATION_TYPES AND PROJECT_IS_TOP_LEVEL)
  set(CMAKE_BUILD_TYPE Release CACHE STRING "" FORCE)
endif()
