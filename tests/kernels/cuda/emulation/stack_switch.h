// Switches the calling thread between stacks, in a few instructions. swapcontext would make a system call for
// the signal mask each time.
#pragma once

#include <cstddef>

#if !defined(__x86_64__)
#include <ucontext.h>
#endif

namespace emulation {

/// A stack and the point where it continues: the calling thread's own stack, or a new one with an entry.
class Stack {
 public:
  /// The caller's stack.
  Stack() = default;
  /// A new stack. `entry` begins when the stack is first switched to, and never returns. Aborts when there is
  /// no memory.
  explicit Stack(void (*entry)());
  ~Stack();
  Stack(const Stack&) = delete;
  Stack& operator=(const Stack&) = delete;

  /// Continues on `to`, and returns when something switches back. `from` is the running stack.
  static void change(Stack& from, Stack& to);
  /// The first call of an entry.
  static void begun();

 private:
  void* memory_ = nullptr;  // null: the caller's
#if defined(__x86_64__)
  void* pointer_ = nullptr;
#else
  ucontext_t context_{};
#endif
#if defined(__SANITIZE_ADDRESS__)
  static void arrived(void* fake);
  const void* bottom_ = nullptr;  // the caller's bounds are known once it has been left
  std::size_t bytes_ = 0;
#endif
};

}  // namespace emulation
