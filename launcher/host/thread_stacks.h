// Checks the stack sizes of a rank's threads, which the environment may set too small.
//
// [Note: stacks of threads] libgomp gives its threads the stack size in OMP_STACKSIZE or GOMP_STACKSIZE.
// Without them, and for all other threads, the size is the main thread's limit (ulimit -s). A stack that is
// too small ends the process with a segmentation fault and no message. So the program raises sizes below
// kLeastStackBytes before anything runs, and refuses to run if that is impossible. libgomp reads the
// environment, and glibc the limit, before main(), hence the restart in restart_with_thread_settings()
// (env.h). A program that embeds the libraries must set its own stack sizes. oneDNN's products pack up to 512
// KiB on a thread's stack, kernels of this tree 25 KiB.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "launcher/host/env.h"

namespace trireme {

inline constexpr std::int64_t kLeastStackBytes = 2 << 20;

/// The limit of a stack in bytes; null: unlimited.
struct StackLimit {
  std::optional<std::int64_t> soft, hard;
};
StackLimit stack_limit();

/// A setting that makes stacks too small.
struct SmallStack {
  enum class Cause : std::uint8_t { kVariable, kLimit };
  Cause cause = Cause::kVariable;
  std::string name;   // of the variable, or "ulimit -s"
  std::string value;  // as set, or in KiB
};
std::vector<SmallStack> find_small_stacks(const StackLimit& limit,
                                          const EnvironmentLookup& lookup = environment_variable);

/// Throws Error(kInvalidInput) naming a variable whose stacks are too large for any process: its threads
/// would not start.
void refuse_huge_stacks(const EnvironmentLookup& lookup = environment_variable);

/// Throws Error(kInvalidInput) naming the first of `small` and the minimum.
void refuse_small_stacks(const std::vector<SmallStack>& small);

/// Raises the setting. Returns true if a restart of the program will have enough; the first rank then logs
/// the new value.
bool raise_stack(const SmallStack& small);

}  // namespace trireme
