# NCCL in the CUDA toolkit, in system folders or in the folder of its Python wheel. Defines the target NCCL::nccl and
# NCCL_VERSION. The caller has found CUDAToolkit. Hint: TRIREME_NVIDIA_WHEELS, a folder that holds nccl/ or cu13/.
include(FindPackageHandleStandardArgs)
set(_nccl_roots ${CUDAToolkit_TARGET_DIR} ${CUDAToolkit_LIBRARY_ROOT})
foreach(_folder IN LISTS TRIREME_NVIDIA_WHEELS)
  list(APPEND _nccl_roots ${_folder}/nccl ${_folder}/cu13 ${_folder}/cu12)
endforeach()
find_path(NCCL_INCLUDE_DIR nccl.h HINTS ${CUDAToolkit_INCLUDE_DIRS} ${_nccl_roots} PATH_SUFFIXES include)
# A wheel has no name without a version.
find_library(NCCL_LIBRARY NAMES nccl libnccl.so.2 HINTS ${CUDAToolkit_LIBRARY_DIR} ${_nccl_roots} PATH_SUFFIXES lib lib64)
if(NCCL_INCLUDE_DIR)
  file(STRINGS ${NCCL_INCLUDE_DIR}/nccl.h _nccl_lines REGEX "^#define NCCL_(MAJOR|MINOR|PATCH) +[0-9]+")
  string(REGEX REPLACE "[^0-9;]" "" _nccl_numbers "${_nccl_lines}")
  string(REPLACE ";" "." NCCL_VERSION "${_nccl_numbers}")
endif()
find_package_handle_standard_args(NCCL REQUIRED_VARS NCCL_LIBRARY NCCL_INCLUDE_DIR VERSION_VAR NCCL_VERSION)
if(NCCL_FOUND AND NOT TARGET NCCL::nccl)
  add_library(NCCL::nccl UNKNOWN IMPORTED)
  set_target_properties(NCCL::nccl PROPERTIES IMPORTED_LOCATION ${NCCL_LIBRARY}
    INTERFACE_INCLUDE_DIRECTORIES ${NCCL_INCLUDE_DIR})
endif()
mark_as_advanced(NCCL_INCLUDE_DIR NCCL_LIBRARY)
