// The stacks of a rank's threads, which other programs' settings may leave too small.
//
// [Note: stacks of threads] libgomp gives its threads the stack that OMP_STACKSIZE or GOMP_STACKSIZE names.
// Without them, and for all other threads, it is the limit of the main thread's (ulimit -s). A stack that is
// too small ends the process by a segmentation fault without a message. So the program raises sizes below
// kLeastStackBytes before anything runs, and refuses to run where that is impossible. libgomp reads the
// environment, and glibc the limit, before main(), hence the restart in restart_with_thread_settings()
// (env.h). A program that embeds the libraries has to look after its stacks. oneDNN's products pack up to 512
// KiB on the stack of a thread, kernels of this tree 25 KiB.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "launcher/host/env.h"

namespace trireme {

inline constexpr std::int64_t kLeastStackBytes = 2 << 20;

/// The limit of a stack in bytes; nothing: none.
struct StackLimit {
  std::optional<std::int64_t> soft, hard;
};
StackLimit stack_limit();

/// A setting that makes stacks too small.
struct SmallStack {
  enum class Cause : std::uint8_t { kVariable, kLimit };
  Cause cause = Cause::kVariable;
  std::string name;   // of the variable, or "ulimit -s"
  std::string value;  // as it is set, or in KiB
};
std::vector<SmallStack> find_small_stacks(const StackLimit& limit,
                                          const EnvironmentLookup& lookup = environment_variable);

/// Throws Error(kInvalidInput) naming a variable whose stacks fit into no process: its threads would not
/// start.
void refuse_huge_stacks(const EnvironmentLookup& lookup = environment_variable);

/// Throws Error(kInvalidInput) naming the first of `small`, and the least value.
void refuse_small_stacks(const std::vector<SmallStack>& small);

/// Sets what is too small. Returns true where a new start of the program will have enough; the first rank
/// logs the new value then.
bool raise_stack(const SmallStack& small);

}  // namespace trireme
