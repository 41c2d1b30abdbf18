# The sources of the cuda backend, for its library and for the tests that run it without a GPU: a file an op.
file(GLOB trireme_cuda_sources CONFIGURE_DEPENDS
  ${CMAKE_CURRENT_LIST_DIR}/*.cc ${CMAKE_CURRENT_LIST_DIR}/*.cu
  ${CMAKE_CURRENT_LIST_DIR}/*/*.cc ${CMAKE_CURRENT_LIST_DIR}/*/*.cu)
# Those with cuDNN and those in their place: one of these two.
set(trireme_cudnn_sources ${trireme_cuda_sources})
set(trireme_no_cudnn_sources ${trireme_cuda_sources})
list(FILTER trireme_cudnn_sources INCLUDE REGEX "(_library_cudnn|cudnn_graph|cudnn_handle)\\.cc$")
list(FILTER trireme_no_cudnn_sources INCLUDE REGEX "_none\\.cc$")
list(REMOVE_ITEM trireme_cuda_sources ${trireme_cudnn_sources} ${trireme_no_cudnn_sources})
