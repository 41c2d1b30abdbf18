// The entries of the cuda table, one file per op. Contracts: kernels/backend.h.
#pragma once

#include "kernels/backend.h"

namespace trireme::cuda {

void prepare_uploads(const KernelContext& exec, std::size_t bytes);
void copy_from_host(const KernelContext& exec, TensorView dst, const void* src);
std::unique_ptr<HostCopy> make_host_copy(const KernelContext& exec, std::size_t bytes);
void copy_to_host(const KernelContext& exec, void* dst, ConstTensorView src);
void copy(const KernelContext& exec, TensorView dst, ConstTensorView src);
void fill_zero(const KernelContext& exec, TensorView dst);

#include "kernels/run_op.inc"

}  // namespace trireme::cuda
