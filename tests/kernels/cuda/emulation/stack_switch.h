// Stacks that the thread of a caller changes between: a few instructions, where swapcontext asks the kernel
// for the signal mask each time.
#pragma once

#include <cstddef>

#if !defined(__x86_64__)
#include <ucontext.h>
#endif

namespace emulation {

/// A stack and where it goes on. The one of the calling thread itself, or one of its own with an entry.
class Stack {
 public:
  /// That of the caller.
  Stack() = default;
  /// A new one, on which `entry` begins when it is first switched to; `entry` never returns. Aborts without
  /// memory.
  explicit Stack(void (*entry)());
  ~Stack();
  Stack(const Stack&) = delete;
  Stack& operator=(const Stack&) = delete;

  /// Goes on with `to`, and returns when somebody switches back. `from` is the running one.
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
  const void* bottom_ = nullptr;  // the caller's are known once it has been left
  std::size_t bytes_ = 0;
#endif
};

}  // namespace emulation
