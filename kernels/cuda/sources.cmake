# The sources of the cuda backend, one file per op, for its library and for the tests that run it without a GPU.
file(GLOB trireme_cuda_sources CONFIGURE_DEPENDS
  ${CMAKE_CURRENT_LIST_DIR}/*.cc ${CMAKE_CURRENT_LIST_DIR}/*.cu
  ${CMAKE_CURRENT_LIST_DIR}/*/*.cc ${CMAKE_CURRENT_LIST_DIR}/*/*.cu)
# The sources with cuDNN, and their replacements without it. A build uses one of the two lists.
set(trireme_cudnn_sources ${trireme_cuda_sources})
set(trireme_no_cudnn_sources ${trireme_cuda_sources})
list(FILTER trireme_cudnn_sources INCLUDE REGEX "(_cudnn|cudnn_graph|cudnn_handle)\\.cc$")
list(FILTER trireme_no_cudnn_sources INCLUDE REGEX "_none\\.cc$")
list(REMOVE_ITEM trireme_cuda_sources ${trireme_cudnn_sources} ${trireme_no_cudnn_sources})
