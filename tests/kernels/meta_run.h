// The meta half of the conformance suite: meta must count the memory of each case. Meta's memory consists of
// unmapped addresses, so a kernel that accesses it ends the program.
#pragma once

#include "tests/kernels/kernel_test.h"

namespace trireme::testing {

/// Runs a case on meta. Expects results with the sizes of `outputs`, no computation, and the device's bytes
/// in every category but workspaces.
void expect_meta_counts(const std::function<Outputs(const Rig&)>& run, const Outputs& outputs,
                        const MemoryStats& on_device);

/// The ops of the table that no case has run on meta yet.
std::vector<std::string> ops_without_a_case();

}  // namespace trireme::testing
