// The meta half of the conformance suite: what a case computes on a device, it counts on meta. Memory of meta
// is addresses that nobody maps, so a kernel that touched any would end the program.
#pragma once

#include "tests/kernels/kernel_test.h"

namespace trireme::testing {

/// Runs a case on meta and expects results of the sizes of `outputs`, nothing computed, and the bytes of
/// every category but workspaces that the case has taken on its device.
void expect_meta_counts(const std::function<Outputs(const Rig&)>& run, const Outputs& outputs,
                        const MemoryStats& on_device);

/// The ops of the table that no case has run on meta so far.
std::vector<std::string> ops_without_a_case();

}  // namespace trireme::testing
