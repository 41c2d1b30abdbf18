# cuDNN in the CUDA toolkit, in system folders or in the folder of its Python wheel. Defines the target CUDNN::cudnn and
# CUDNN_VERSION. The caller has found CUDAToolkit. Hint: TRIREME_NVIDIA_WHEELS, a folder that holds cudnn/ or cu13/.
include(FindPackageHandleStandardArgs)
set(_cudnn_roots ${CUDAToolkit_TARGET_DIR} ${CUDAToolkit_LIBRARY_ROOT})
foreach(_folder IN LISTS TRIREME_NVIDIA_WHEELS)
  list(APPEND _cudnn_roots ${_folder}/cudnn ${_folder}/cu13 ${_folder}/cu12)
endforeach()
find_path(CUDNN_INCLUDE_DIR cudnn_graph.h HINTS ${CUDAToolkit_INCLUDE_DIRS} ${_cudnn_roots} PATH_SUFFIXES include)
# A wheel has no name without a version.
find_library(CUDNN_LIBRARY NAMES cudnn libcudnn.so.9 HINTS ${CUDAToolkit_LIBRARY_DIR} ${_cudnn_roots} PATH_SUFFIXES lib lib64)
if(CUDNN_INCLUDE_DIR AND EXISTS ${CUDNN_INCLUDE_DIR}/cudnn_version.h)
  file(STRINGS ${CUDNN_INCLUDE_DIR}/cudnn_version.h _cudnn_lines REGEX "^#define CUDNN_(MAJOR|MINOR|PATCHLEVEL) +[0-9]+")
  string(REGEX REPLACE "[^0-9;]" "" _cudnn_numbers "${_cudnn_lines}")
  string(REPLACE ";" "." CUDNN_VERSION "${_cudnn_numbers}")
endif()
find_package_handle_standard_args(CUDNN REQUIRED_VARS CUDNN_LIBRARY CUDNN_INCLUDE_DIR VERSION_VAR CUDNN_VERSION)
if(CUDNN_FOUND AND NOT TARGET CUDNN::cudnn)
  add_library(CUDNN::cudnn UNKNOWN IMPORTED)
  set_target_properties(CUDNN::cudnn PROPERTIES IMPORTED_LOCATION ${CUDNN_LIBRARY}
    INTERFACE_INCLUDE_DIRECTORIES ${CUDNN_INCLUDE_DIR})
endif()
mark_as_advanced(CUDNN_INCLUDE_DIR CUDNN_LIBRARY)
