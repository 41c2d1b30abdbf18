// Declares the functions of the cpu table; each op has a file (kernels/README.md). Contracts:
// kernels/backend.h.
#pragma once

#include "kernels/backend.h"

namespace trireme::cpu {

std::map<std::string, std::string> arithmetic();

void copy_from_host(const KernelContext& exec, TensorView dst, const void* src);
void copy_to_host(const KernelContext& exec, void* dst, ConstTensorView src);
void copy(const KernelContext& exec, TensorView dst, ConstTensorView src);
void fill_zero(const KernelContext& exec, TensorView dst);

#include "kernels/run_op.inc"

}  // namespace trireme::cpu
