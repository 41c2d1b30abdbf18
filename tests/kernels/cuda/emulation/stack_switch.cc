#include "tests/kernels/cuda/emulation/stack_switch.h"

#include <sys/mman.h>

#include <cstdio>
#include <cstdlib>

#if defined(__SANITIZE_ADDRESS__)
#include <sanitizer/asan_interface.h>
#endif

#if defined(__x86_64__)
// System V: callee-saved registers are pushed here and popped from the other stack, whose `ret` continues
// there. Rounding modes belong to the thread and stay unchanged.
asm(R"(
  .pushsection .text
  .type trireme_emulation_change_stack, @function
trireme_emulation_change_stack:
  pushq %rbp
  pushq %rbx
  pushq %r12
  pushq %r13
  pushq %r14
  pushq %r15
  movq %rsp, (%rdi)
  movq %rsi, %rsp
  popq %r15
  popq %r14
  popq %r13
  popq %r12
  popq %rbx
  popq %rbp
  ret
  .size trireme_emulation_change_stack, .-trireme_emulation_change_stack
  .popsection
)");
extern "C" void trireme_emulation_change_stack(void** from, void* to);
#endif

namespace emulation {
namespace {

constexpr std::size_t kStackBytes = 256 * 1024;

void* reserve() {
  void* memory =
      mmap(nullptr, kStackBytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
  if (memory != MAP_FAILED) return memory;
  std::fprintf(stderr, "emulated kernel: no memory for the stack of a thread\n");
  std::abort();
}

#if defined(__SANITIZE_ADDRESS__)
// The stack that the thread is leaving. The arriving side reads its bounds.
thread_local Stack* left = nullptr;
#endif

}  // namespace

Stack::Stack(void (*entry)()) : memory_(reserve()) {
#if defined(__x86_64__)
  // From the top: an unused return address, the entry, six registers. At the entry, the stack pointer is 8
  // bytes past a multiple of 16, as after a call.
  void** top = reinterpret_cast<void**>(static_cast<char*>(memory_) + kStackBytes) - 2;
  top[0] = reinterpret_cast<void*>(entry);
  pointer_ = top - 6;
#else
  getcontext(&context_);
  context_.uc_stack.ss_sp = memory_;
  context_.uc_stack.ss_size = kStackBytes;
  context_.uc_link = nullptr;
  makecontext(&context_, entry, 0);
#endif
#if defined(__SANITIZE_ADDRESS__)
  bottom_ = memory_;
  bytes_ = kStackBytes;
#endif
}

Stack::~Stack() {
  if (memory_ == nullptr) return;
#if defined(__SANITIZE_ADDRESS__)
  // An entry never returns, so the red zones of its frames are still marked. The next mapping at this
  // address, such as a file, would inherit them.
  __asan_unpoison_memory_region(memory_, kStackBytes);
#endif
  munmap(memory_, kStackBytes);
}

void Stack::change(Stack& from, Stack& to) {
#if defined(__SANITIZE_ADDRESS__)
  left = &from;
  void* fake = nullptr;
  __sanitizer_start_switch_fiber(&fake, to.bottom_, to.bytes_);
#endif
#if defined(__x86_64__)
  trireme_emulation_change_stack(&from.pointer_, to.pointer_);
#else
  swapcontext(&from.context_, &to.context_);
#endif
#if defined(__SANITIZE_ADDRESS__)
  arrived(fake);
#endif
}

void Stack::begun() {
#if defined(__SANITIZE_ADDRESS__)
  arrived(nullptr);
#endif
}

#if defined(__SANITIZE_ADDRESS__)
void Stack::arrived(void* fake) {
  const void* bottom = nullptr;
  std::size_t bytes = 0;
  __sanitizer_finish_switch_fiber(fake, &bottom, &bytes);
  if (left->memory_ != nullptr) return;
  left->bottom_ = bottom;
  left->bytes_ = bytes;
}
#endif

}  // namespace emulation
