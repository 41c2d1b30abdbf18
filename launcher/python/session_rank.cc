#include "launcher/python/session_rank.h"

#include <algorithm>
#include <chrono>
#include <utility>

#include "launcher/families/model_family.h"
#include "launcher/host/agreement.h"
#include "launcher/host/device.h"
#include "launcher/host/machine.h"
#include "launcher/job/memory_fit.h"
#include "launcher/job/parameter_patterns.h"
#include "launcher/records/output_folder.h"
#include "launcher/state/initial_weights.h"
#include "launcher/state/run_checkpoint.h"
#include "launcher/train/checkpoint_save.h"
#include "launcher/train/trainer.h"
#include "parallel/run/checkpoint_state.h"
#include "runtime/base/error.h"

namespace trireme {

void SessionRank::settle(const std::filesystem::path& out) {
  RunPlace place = place_;
  place.out = out;
  options_ = settle_run(job_.config, place);
  options_->data = job_.data;
  if (!job_.blocks) return;
  run_stage(comm(), [&] {
    BlockList blocks = job_.blocks(family_of(config().model).build(config().model));
    options_->blocks = std::make_shared<const BlockList>(std::move(blocks));
  });
}

void SessionRank::make_engine() {
  settle("");
  EngineOptions options = engine_options(config(), *options_->blocks);
  options.device = options_->device;
  const int local_ranks = place_.launch.num_local_ranks;
  if (config().parallel.threads == 0) options.threads = threads_per_rank(count_cores(), local_ranks);
  run_stage(comm(), [&] {
    batch_layout(config(), comm().size());
    check_memory(counted_on(config(), options.device.type), options_->blocks, comm().size(), comm().rank(),
                 memory_limit(config(), options.device, local_ranks));
  });
  run_stage(comm(), [&] { owned_ = std::make_unique<Engine>(options_->blocks, options_->comm, options); });
  if (!config().model.init_from.empty()) {
    const InitialWeights weights = open_initial_weights(config().model);
    run_stage(comm(), [&] { check_model(*owned_, *weights.source); });
    run_stage(comm(), [&] { load_model(*owned_, *weights.source); });
  }
  engine_ = owned_.get();
}

void SessionRank::train(const std::filesystem::path& out, TrainingHooks hooks, const StopRequest& stop) {
  settle(out);
  RunOptions options = *options_;
  options.hooks = std::move(hooks);
  TrainingRun run = start_run(std::move(options));
  engine_ = run.engine.get();
  Trainer trainer(std::move(run), stop);
  try {
    trainer.run();
  } catch (...) {
    engine_ = nullptr;
    throw;
  }
  owned_ = trainer.take_engine();
}

std::string SessionRank::agreed_hash() {
  const std::uint64_t mine = engine_->state_hash();
  run_stage(comm(), [&] {
    const auto hashes = comm().all_gather_value(mine);
    TRIREME_CHECK(std::ranges::count(hashes, mine) == std::ssize(hashes), "the ranks' states differ");
  });
  return fmt::format("{:016x}", mine);
}

std::filesystem::path SessionRank::save(const std::filesystem::path& out) {
  // Not comparable with any file.
  DataRecord record{.samples = engine_->steps_done() * config().train.global_batch};
  record.train = DataFingerprint{.contents = "samples that a program passed to step()"};
  const RunState state{.step = engine_->steps_done(),
                       .state_hash = agreed_hash(),
                       .loss_scale = engine_->loss_scale_state(),
                       .config = config(),
                       .arithmetic = options_->arithmetic,
                       .data = std::move(record)};
  const CheckpointStore store(OutputFolder{out}.checkpoints());
  CheckpointSave save(*engine_);
  return save
      .save({.store = store,
             .state = state,
             .tokenizer_model = std::nullopt,
             .began = std::chrono::steady_clock::now()})
      .folder;
}

void SessionRank::resume(const std::filesystem::path& place) {
  std::optional<Checkpoint> checkpoint;
  std::optional<RunState> state;
  run_stage(comm(), [&] {
    checkpoint = open_checkpoint_or_run(place);
    state = read_run_state(*checkpoint);
    check_same_training(state->config, config(), *options_->blocks, checkpoint->folder.string());
  });
  run_stage(comm(), [&] { load_state(*engine_, checkpoint->folder, StateParts::kAll); });
  engine_->set_steps_done(state->step);
  if (state->loss_scale) engine_->set_loss_scale_state(*state->loss_scale);
  const std::string hash = agreed_hash();
  run_stage(comm(), [&] {
    TRIREME_CHECK(hash == state->state_hash, "{}: the restored state has the hash {}, the manifest says {}",
                  checkpoint->folder.string(), hash, state->state_hash);
  });
}

}  // namespace trireme
