#include "launcher/train/checkpoint_save.h"

#include <algorithm>

#include "launcher/host/agreement.h"
#include "launcher/host/elapsed.h"
#include "parallel/watch/watchdog.h"

namespace trireme {
namespace {

// Input errors of checks are runtime failures here.
AgreedError while_running(const AgreedError& error) {
  if (error.code() != ErrorCode::kInvalidInput) return error;
  return AgreedError(error.saying(ErrorCode::kRuntime, error.what()));
}

}  // namespace

CheckpointSave::Saved CheckpointSave::save(const Job& job) {
  begin(job, StateFiles::State::kNow);
  return *finish();
}

void CheckpointSave::start(const Job& job) {
  begin(job, StateFiles::State::kSnapshot);
}

void CheckpointSave::begin(const Job& job, StateFiles::State source) {
  Communicator& comm = engine_.communicator();
  const bool is_first = comm.rank() == 0;
  const bool copies = source == StateFiles::State::kSnapshot;
  source_ = source;
  work_.run_at_once(!copies);
  step_ = engine_.steps_done();
  began_ = job.began;
  try {
    run_stage(comm, [&] {
      if (copies) engine_.snapshot()->take();
      if (copies && engine_.verifier() != nullptr) files_.note();  // never save unverified state
      if (!is_first) return;
      store_ = job.store;
      state_ = job.state;
      pending_.emplace(store_->begin(step_));
      files_.make(pending_->folder());
      if (job.tokenizer_model) copy_tokenizer(*job.tokenizer_model, state_, pending_->folder());
    });
  } catch (const AgreedError& error) {
    discard();
    throw while_running(error);
  }
  place_ = text_of_rank(comm, 0, is_first ? pending_->folder().string() : "");
  work_.run(Progress::kWriting, Progress::kWritten,
            [this] { files_.write(place_, source_, work_.is_cancelled()); });
  stall_s_ = seconds_since(began_);
}

void CheckpointSave::note_evaluation(double eval_loss) {
  state_.eval_loss = eval_loss;
  state_.evaluation_due = false;
}

void CheckpointSave::put_in_place(const std::vector<std::uint64_t>& hashes) {
  // A thread has no status.
  RankStatus* status = source_ == StateFiles::State::kNow ? engine_.communicator().status().get() : nullptr;
  const Watchdog::Scope watch(status, "the syncing of " + place_.string());
  for (CheckpointFile& file : files_.describe(hashes)) pending_->add_file(std::move(file));
  folder_ = pending_->commit(to_content(state_));
  if (state_.config.checkpoint.keep > 0) store_->prune(state_.config.checkpoint.keep, Verify::kSizes);
}

std::optional<CheckpointSave::Saved> CheckpointSave::advance(std::span<const Progress> ranks) {
  if (!is_active()) return std::nullopt;
  const auto all = [&](Progress wanted) {
    return std::ranges::all_of(ranks, [&](Progress one) { return one == wanted; });
  };
  Communicator& comm = engine_.communicator();
  if (std::ranges::find(ranks, Progress::kFailed) != ranks.end()) {
    work_.cancel();  // ranks that still write return early
    try {
      run_stage(comm, [this] { work_.rethrow(); });
    } catch (const AgreedError& error) {
      discard();
      throw while_running(error);
    }
  }
  if (ranks[0] == Progress::kDone) return saved();
  if (all(Progress::kWritten)) {
    work_.run(Progress::kHashing, Progress::kHashed, [this] { hashes_ = files_.hash(place_); });
  } else if (all(Progress::kHashed)) {
    work_.join();
    const auto hashes = comm.all_gather_values(std::span<const std::uint64_t>(hashes_));
    if (comm.rank() == 0)
      work_.run(Progress::kFinishing, Progress::kDone, [this, hashes] { put_in_place(hashes); });
  }
  return std::nullopt;
}

std::optional<CheckpointSave::Saved> CheckpointSave::finish() {
  while (is_active()) {
    work_.join();
    if (auto done = advance(engine_.communicator().all_gather_value(progress()))) return done;
  }
  return std::nullopt;
}

CheckpointSave::Saved CheckpointSave::saved() {
  work_.join();
  Saved saved{.step = step_, .folder = folder_, .stall_s = stall_s_, .seconds = seconds_since(began_)};
  if (source_ == StateFiles::State::kNow) saved.stall_s = saved.seconds;
  discard();
  return saved;
}

void CheckpointSave::discard() noexcept {
  work_.reset();
  step_ = -1;
  pending_.reset();
  store_.reset();
  hashes_.clear();
  folder_.clear();
}

}  // namespace trireme
