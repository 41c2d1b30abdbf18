#include "launcher/train/background_save.h"

#include <algorithm>

#include "launcher/host/agreement.h"
#include "launcher/host/elapsed.h"

namespace trireme {
namespace {

using Clock = std::chrono::steady_clock;

// Input errors of checks are runtime failures here.
AgreedError while_running(const AgreedError& error) {
  if (error.code() != ErrorCode::kInvalidInput) return error;
  return AgreedError(error.saying(ErrorCode::kRuntime, error.what()));
}

}  // namespace

// Each rank has one thread, which sets progress_ when it ends.
void BackgroundSave::run(Progress then, const std::function<void()>& work) {
  join();
  thread_ = std::thread([this, then, work] {
    try {
      work();
      if (!cancelled_) progress_ = then;
    } catch (...) {
      error_ = std::current_exception();
      progress_ = Progress::kFailed;
    }
  });
}

void BackgroundSave::join() {
  if (thread_.joinable()) thread_.join();
}

void BackgroundSave::start(const CheckpointStore& store, const RunState& state,
                           const std::optional<std::filesystem::path>& tokenizer_model,
                           Clock::time_point began) {
  Communicator& comm = engine_.communicator();
  const bool is_first = comm.rank() == 0;
  step_ = engine_.steps_done();
  began_ = began;
  try {
    run_stage(comm, [&] {
      engine_.snapshot()->take();
      if (engine_.verifier() != nullptr) files_.note();  // never save unverified state
      if (!is_first) return;
      store_ = store;
      state_ = state;
      pending_.emplace(store_->begin(step_));
      files_.make(pending_->folder());
      if (tokenizer_model) copy_tokenizer(*tokenizer_model, state, pending_->folder());
    });
  } catch (const AgreedError& error) {
    clear();
    throw while_running(error);
  }
  place_ = text_of_rank(comm, 0, is_first ? pending_->folder().string() : "");
  progress_ = Progress::kWriting;
  run(Progress::kWritten, [this] { files_.write(place_, cancelled_); });
  stall_s_ = seconds_since(began);
}

void BackgroundSave::note_evaluation(double eval_loss) {
  state_.eval_loss = eval_loss;
  state_.evaluation_due = false;
}

void BackgroundSave::put_in_place() {
  for (CheckpointFile& file : files_.describe(place_)) pending_->add_file(std::move(file));
  folder_ = commit_checkpoint(*store_, *pending_, state_);
}

std::optional<BackgroundSave::Saved> BackgroundSave::advance(std::span<const Progress> ranks) {
  if (!is_active()) return std::nullopt;
  const auto is = [](Progress progress) { return [progress](Progress one) { return one == progress; }; };
  const bool has_failed = std::ranges::any_of(ranks, is(Progress::kFailed));
  if (has_failed) cancelled_ = true;  // other ranks stop writing early
  if (ranks[0] == Progress::kDone || has_failed) return finish();
  if (std::ranges::all_of(ranks, is(Progress::kWritten)) && engine_.communicator().rank() == 0) {
    progress_ = Progress::kFinishing;
    run(Progress::kDone, [this] { put_in_place(); });
  }
  return std::nullopt;
}

std::optional<BackgroundSave::Saved> BackgroundSave::finish() {
  if (!is_active()) return std::nullopt;
  Communicator& comm = engine_.communicator();
  const auto raise = [this] {
    join();
    if (error_) std::rethrow_exception(error_);
  };
  try {
    run_stage(comm, raise);
    // If rank 0 had already begun, it has finished by now.
    run_stage(comm, [&] {
      if (comm.rank() != 0 || progress_ == Progress::kDone) return;
      put_in_place();
    });
  } catch (const AgreedError& error) {
    discard();
    throw while_running(error);
  }
  return saved();
}

BackgroundSave::Saved BackgroundSave::saved() {
  Saved saved{.step = step_, .folder = folder_, .stall_s = stall_s_, .seconds = seconds_since(began_)};
  clear();
  return saved;
}

void BackgroundSave::discard() noexcept {
  cancelled_ = true;
  join();
  cancelled_ = false;
  clear();
}

void BackgroundSave::clear() {
  step_ = -1;
  pending_.reset();
  store_.reset();
  folder_.clear();
  error_ = nullptr;
  progress_ = Progress::kNone;
}

}  // namespace trireme
