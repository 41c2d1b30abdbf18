# Decides whether this build has the CUDA backend, and finds what it needs. Sets TRIREME_HAVE_CUDA, _CUDNN, _NCCL.
#
# TRIREME_CUDA=OFF   no CUDA (the default: a toolkit on a machine does not say that a build for GPUs is wanted)
# TRIREME_CUDA=AUTO  CUDA where a compiler and cuBLASLt are found
# TRIREME_CUDA=ON    CUDA, or an error that says what is missing (the preset `cuda`)
#
# Without cuDNN attention runs on the native kernels, without NCCL a build has no communicator between GPUs; both are
# said in the configuration's output. Toolkits in Python wheels are found through python3, or named by
# -DTRIREME_NVIDIA_WHEELS=.../site-packages/nvidia.
set(TRIREME_CUDA OFF CACHE STRING "Build the CUDA backend: OFF, AUTO or ON")
set_property(CACHE TRIREME_CUDA PROPERTY STRINGS OFF AUTO ON)
set(TRIREME_NVIDIA_WHEELS "" CACHE STRING "Folders of NVIDIA's Python wheels (.../site-packages/nvidia)")
set(TRIREME_HAVE_CUDA OFF)
set(TRIREME_HAVE_CUDNN OFF)
set(TRIREME_HAVE_NCCL OFF)
if(NOT TRIREME_CUDA)
  return()
endif()

# Says why there is no CUDA and leaves this file.
macro(trireme_no_cuda reason)
  if(TRIREME_CUDA STREQUAL "AUTO")
    message(STATUS "CUDA backend: no (${reason})")
    return()
  endif()
  message(FATAL_ERROR "TRIREME_CUDA=${TRIREME_CUDA}, but ${reason}. Install a CUDA toolkit (12.4 or newer), name one by "
    "-DCMAKE_CUDA_COMPILER=.../nvcc or -DTRIREME_NVIDIA_WHEELS=.../site-packages/nvidia, or build for CPUs with "
    "TRIREME_CUDA=OFF.")
endmacro()

if(NOT TRIREME_NVIDIA_WHEELS)
  find_program(_trireme_python NAMES python3)
  if(_trireme_python)
    execute_process(COMMAND ${_trireme_python} -c "import nvidia; print(';'.join(nvidia.__path__))"
      OUTPUT_VARIABLE _trireme_wheels OUTPUT_STRIP_TRAILING_WHITESPACE ERROR_QUIET RESULT_VARIABLE _trireme_status)
    if(_trireme_status EQUAL 0)
      set(TRIREME_NVIDIA_WHEELS ${_trireme_wheels})
    endif()
  endif()
  unset(_trireme_python CACHE)
endif()

if(NOT CMAKE_CUDA_COMPILER)
  set(_trireme_nvcc_hints)
  foreach(_folder IN LISTS TRIREME_NVIDIA_WHEELS)
    list(APPEND _trireme_nvcc_hints ${_folder}/cu13/bin ${_folder}/cuda_nvcc/bin)
  endforeach()
  find_program(TRIREME_NVCC nvcc PATHS /usr/local/cuda/bin ${_trireme_nvcc_hints})
  mark_as_advanced(TRIREME_NVCC)
  if(NOT TRIREME_NVCC)
    trireme_no_cuda("there is no nvcc")
  endif()
  set(CMAKE_CUDA_COMPILER ${TRIREME_NVCC})
endif()
# Machine code for Ampere and Hopper; newer cards compile the PTX.
if(NOT CMAKE_CUDA_ARCHITECTURES)
  set(CMAKE_CUDA_ARCHITECTURES 80-real 90 CACHE STRING "GPUs to build for")
endif()
if(CCACHE_PROGRAM AND NOT CMAKE_CUDA_COMPILER_LAUNCHER)
  set(CMAKE_CUDA_COMPILER_LAUNCHER ${CCACHE_PROGRAM})
endif()
enable_language(CUDA)
# CMake 3.25 does not know that compilers newer than itself have C++20.
if(NOT CMAKE_CUDA20_STANDARD_COMPILE_OPTION)
  set(CMAKE_CUDA20_STANDARD_COMPILE_OPTION -std=c++20)
  set(CMAKE_CUDA20_EXTENSION_COMPILE_OPTION -std=c++20)
  list(APPEND CMAKE_CUDA_COMPILE_FEATURES cuda_std_20)
endif()

find_package(CUDAToolkit QUIET)
if(NOT CUDAToolkit_FOUND)
  trireme_no_cuda("no toolkit is found beside ${CMAKE_CUDA_COMPILER}")
endif()
if(NOT TARGET CUDA::cublasLt)
  trireme_no_cuda("the toolkit ${CUDAToolkit_LIBRARY_DIR} has no cuBLASLt")
endif()
find_package(CUDNN 9)
find_package(NCCL 2.18)
set(TRIREME_HAVE_CUDA ON)
set(TRIREME_HAVE_CUDNN ${CUDNN_FOUND})
set(TRIREME_HAVE_NCCL ${NCCL_FOUND})
message(STATUS "CUDA backend: toolkit ${CUDAToolkit_VERSION}, cuDNN ${CUDNN_VERSION}, NCCL ${NCCL_VERSION}, "
  "for ${CMAKE_CUDA_ARCHITECTURES}")
