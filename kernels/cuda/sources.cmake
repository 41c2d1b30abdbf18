# The sources of the cuda backend, for its library and for the tests that run it without a GPU.
set(trireme_cuda_sources
  activation.cu
  attention.cc
  backend.cc
  cast.cu
  check.cc
  column_sum.cu
  cross_entropy.cu
  device_report.cc
  dropout.cu
  elementwise.cu
  embedding.cu
  grad_norm.cu
  loss_scale.cu
  layer_norm_bwd.cu
  layer_norm_fwd.cu
  matmul.cc
  matmul_library.cc
  memory_source.cc
  nvml.cc
  optimizer.cu
  own_attention_bwd.cu
  own_attention_fwd.cu
  staging_buffers.cc
  stream.cc
  transfer.cc)
list(TRANSFORM trireme_cuda_sources PREPEND ${CMAKE_CURRENT_LIST_DIR}/)
