#include "launcher/python/computing_thread.h"

#include <omp.h>
#include <pthread.h>

namespace trireme {
namespace {

void block_signals(sigset_t* former) {
  sigset_t all;
  sigfillset(&all);
  pthread_sigmask(SIG_SETMASK, &all, former);
}

}  // namespace

BlockedSignals::BlockedSignals() {
  block_signals(&former_);
}

BlockedSignals::~BlockedSignals() {
  pthread_sigmask(SIG_SETMASK, &former_, nullptr);
}

CallerComputes::CallerComputes() : num_threads_(omp_get_max_threads()) {}

CallerComputes::~CallerComputes() {
  omp_set_num_threads(num_threads_);
}

void bind_thread(const Context& ctx) {
  ctx.backend->bind_thread(ctx.exec);
  if (ctx.exec.num_threads == 1) return;
#pragma omp parallel num_threads(ctx.exec.num_threads)
  block_signals(nullptr);
}

}  // namespace trireme
