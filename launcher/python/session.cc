#include "launcher/python/session.h"

#include <unistd.h>

#include <algorithm>
#include <cstring>
#include <map>
#include <span>
#include <utility>

#include "launcher/families/model_family.h"
#include "launcher/host/agreement.h"
#include "launcher/host/device.h"
#include "launcher/host/env.h"
#include "launcher/host/machine.h"
#include "launcher/job/memory_fit.h"
#include "launcher/job/parameter_patterns.h"
#include "launcher/python/samples.h"
#include "launcher/records/output_folder.h"
#include "launcher/state/initial_weights.h"
#include "launcher/state/run_checkpoint.h"
#include "launcher/train/checkpoint_save.h"
#include "launcher/train/evaluation.h"
#include "launcher/train/settled_run.h"
#include "launcher/train/trainer.h"
#include "parallel/run/checkpoint_state.h"
#include "parallel/run/saved_tensors.h"
#include "runtime/base/error.h"

namespace trireme {
namespace {

/// Options that this kind of session supports.
Session::Options checked(Session::Options options) {
  const LaunchEnvironment launch = read_launch_environment();
  if (launch.under_mpi()) {
    throw Error(ErrorCode::kUnsupported,
                "a session runs in one process, and this one is rank {} of {} of {}: start Python without a "
                "launcher and set local={}, or use `trireme train`",
                launch.rank, launch.num_ranks, launch.launcher, launch.num_ranks);
  }
  TRIREME_CHECK(options.num_ranks >= 1, "local={}: a session has 1 rank or more", options.num_ranks);
  TRIREME_CHECK(!options.data || options.config.data.kind == DataKind::kSynthetic,
                "data.kind = \"{}\": samples of Python replace those of data.kind = \"synthetic\"; set it",
                to_word(options.config.data.kind));
  if (!options.loss) return options;
  const JobConfig& config = options.config;
  if (config.parallel.layout.tensor > 1 || config.model.has_adapters()) {
    throw Error(ErrorCode::kUnsupported,
                "a loss in Python needs parallel.tensor = 1 and a model without "
                "adapters (lora.rank = 0)");
  }
  return options;
}

}  // namespace

Session::Session(Options options)
    : options_(checked(std::move(options))),
      sample_(given_samples(sample_spec(options_.config))),
      lr_(lr_schedule(options_.config)),
      process_(::getpid()),
      team_(options_.num_ranks),
      ranks_(static_cast<std::size_t>(options_.num_ranks)) {}

Session::~Session() {
  try {
    stop_training();
  } catch (const std::exception&) {
    // Reported by the call that closed the session, if there was one.
  }
  try {
    // Engines belong to their threads: ranks of a pipeline leave together.
    team_.run([this](int number) { rank(number).owned.reset(); });
  } catch (const std::exception&) {
  }
}

bool Session::is_of_this_process() const {
  return ::getpid() == process_;
}

void Session::check_process() const {
  TRIREME_CHECK(is_of_this_process(),
                "this session belongs to process {}, whose threads this fork of it does not have: make a "
                "session after the fork",
                process_);
}

void Session::refuse_during_training(const char* what) const {
  TRIREME_CHECK(!is_training_, "{} during train(): take its last record, or close its generator, first",
                what);
}

void Session::prepare(const char* what_not_during_training) {
  check_process();
  if (what_not_during_training != nullptr) refuse_during_training(what_not_during_training);
  make_engines();
}

RunOptions Session::settled(int number, const std::filesystem::path& out) {
  LaunchEnvironment launch;
  launch.rank = launch.local_rank = number;
  launch.num_ranks = launch.num_local_ranks = team_.size();
  RunOptions options =
      settle_run(options_.config, {.out = out, .launch = launch, .comm = team_.comm(number)});
  options.data = options_.data;
  if (!options_.loss) return options;
  BlockList blocks = family_of(options.config.model).build(options.config.model);
  blocks.back() = with_own_loss(std::move(blocks.back()), options_.loss);
  options.blocks = std::make_shared<const BlockList>(std::move(blocks));
  return options;
}

void Session::make_engines() {
  if (ranks_.front().engine != nullptr) return;
  team_.run([this](int number) { make_engine(number); });
}

void Session::make_engine(int number) {
  Rank& mine = rank(number);
  mine.options = settled(number, "");
  const JobConfig& config = mine.options.config;
  Communicator& comm = *mine.options.comm;
  EngineOptions options = engine_options(config, *mine.options.blocks);
  options.device = mine.options.device;
  if (config.parallel.threads == 0) options.threads = threads_per_rank(count_cores(), comm.size());
  run_stage(comm, [&] {
    batch_layout(config, comm.size());
    check_memory(counted_on(config, options.device.type), mine.options.blocks, comm.size(), comm.rank(),
                 memory_limit(config, options.device, comm.size()));
  });
  run_stage(comm,
            [&] { mine.owned = std::make_unique<Engine>(mine.options.blocks, mine.options.comm, options); });
  if (!config.model.init_from.empty()) {
    const InitialWeights weights = open_initial_weights(config.model);
    run_stage(comm, [&] { check_model(*mine.owned, *weights.source); });
    run_stage(comm, [&] { load_model(*mine.owned, *weights.source); });
  }
  mine.engine = mine.owned.get();
}

std::int64_t Session::steps_done() const {
  return ranks_.front().engine == nullptr ? 0 : ranks_.front().engine->steps_done();
}

StepResult Session::step(const Samples& samples, std::optional<double> lr) {
  check_samples(sample_, config().model, samples);
  const std::int64_t wanted = options_.config.train.global_batch;
  TRIREME_CHECK(samples.count == wanted, "a step takes train.global_batch = {} samples, and inputs have {}",
                wanted, samples.count);
  prepare("step()");
  StepResult result;
  const std::int64_t targets = num_targets(sample_, samples);
  const double rate = lr ? *lr : lr_.at(steps_done());
  team_.run([&](int number) {
    StepResult mine = engine(number).step(source_of(sample_, samples), targets, rate);
    if (number == 0) result = std::move(mine);
  });
  return result;
}

float Session::evaluate(const Samples& samples) {
  check_samples(sample_, config().model, samples);
  const std::int64_t targets = num_targets(sample_, samples);
  TRIREME_CHECK(targets > 0, "targets are all -1: there is nothing to evaluate");
  prepare(nullptr);
  float loss = 0;
  team_.run([&](int number) {
    const float mine = engine(number).evaluate(source_of(sample_, samples), samples.count, targets);
    if (number == 0) loss = mine;
  });
  return loss;
}

EvalMetrics Session::evaluate_data() {
  prepare(nullptr);
  EvalMetrics metrics;
  std::shared_ptr<const Dataset> data;
  if (options_.data) data = options_.data->eval;
  TRIREME_CHECK(!options_.data || data, "the session has no eval= data set");
  if (!data) {
    TRIREME_CHECK(!config().data.eval.empty(), "data.eval is empty: set it, or pass inputs and targets");
    data = open_eval_data(config(), false).eval;
  }
  EvaluationOptions evaluation = evaluation_of(config(), data);
  check_has_targets(evaluation);
  team_.run([&](int number) {
    EvaluationOptions mine = evaluation;
    mine.workers = num_data_workers(config(), 1);
    if (engine(number).parameters().has_averages()) mine.weights = Weights::kAverages;
    EvalMetrics found = trireme::evaluate(engine(number), mine);
    if (number == 0) metrics = std::move(found);
  });
  return metrics;
}

void Session::logits(const Samples& samples, const LogitsReader& read) {
  check_samples(sample_, config().model, samples);
  prepare(nullptr);
  std::mutex mutex;  // of `read`
  team_.run([&](int number) {
    Engine& mine = engine(number);
    const Coord coord = mine.groups().coord();
    const BatchLayout batch{.global_batch = samples.count,
                            .micro_batch = config().train.micro_batch,
                            .data_ranks = mine.groups().mesh.size(Axis::kData)};
    std::int64_t local = 0;
    mine.evaluate(
        source_of(sample_, samples), samples.count, std::max<std::int64_t>(1, num_targets(sample_, samples)),
        [&](const Tensor& logits, const Batch&) {
          const auto [first, count] = batch.samples_of(coord[Axis::kData], local++);
          const std::vector<float> values = mine.context().to_host(logits);
          const auto per_sample = values.size() / static_cast<std::size_t>(count);
          const std::lock_guard lock(mutex);
          for (std::int64_t i = 0; i < count; ++i) {
            read(first + i, std::span(values).subspan(static_cast<std::size_t>(i) * per_sample, per_sample),
                 logits.shape());
          }
        });
  });
}

std::vector<SafetensorsEntry> Session::state_entries() {
  prepare(nullptr);
  return entries_of(model_tensors(engine(0)));
}

void Session::read_state(const std::vector<NamedFloats>& tensors) {
  prepare(nullptr);
  std::map<std::string, float*> values;
  for (const NamedFloats& tensor : tensors) values.emplace(tensor.entry.name, tensor.values);
  std::mutex mutex;  // ranks that hold the same values write the same memory
  team_.run([&](int number) {
    visit_model(engine(number),
                [&](const std::string& name, std::uint64_t first, std::span<const float> piece) {
                  const std::lock_guard lock(mutex);
                  std::memcpy(values.at(name) + first, piece.data(), piece.size_bytes());
                });
  });
}

void Session::load_state(const std::vector<NamedFloats>& tensors) {
  prepare("load_state_dict()");
  const NamedTensors source(tensors);
  team_.run([&](int number) {
    run_stage(*team_.comm(number), [&] { check_model(engine(number), source); });
    load_model(engine(number), source);
  });
}

std::string Session::agreed_hash(int number) {
  const std::uint64_t mine = engine(number).state_hash();
  run_stage(*team_.comm(number), [&] {
    const auto hashes = team_.comm(number)->all_gather_value(mine);
    TRIREME_CHECK(std::ranges::count(hashes, mine) == std::ssize(hashes), "the ranks' states differ");
  });
  return fmt::format("{:016x}", mine);
}

std::string Session::state_hash() {
  prepare(nullptr);
  std::string hash;
  team_.run([&](int number) {
    std::string mine = agreed_hash(number);
    if (number == 0) hash = std::move(mine);
  });
  return hash;
}

// The data of a checkpoint that step() wrote: not comparable with any file.
DataRecord Session::record_of_samples() const {
  DataRecord record{.samples = steps_done() * config().train.global_batch};
  record.train = DataFingerprint{.contents = "samples that a program passed to step()"};
  return record;
}

std::filesystem::path Session::save(const std::filesystem::path& out) {
  prepare("save()");
  std::filesystem::path folder;
  team_.run([&](int number) {
    Engine& mine = engine(number);
    const RunState state{.step = mine.steps_done(),
                         .state_hash = agreed_hash(number),
                         .loss_scale = mine.loss_scale_state(),
                         .config = rank(number).options.config,
                         .arithmetic = rank(number).options.arithmetic,
                         .data = record_of_samples()};
    const CheckpointStore store(OutputFolder{out}.checkpoints());
    CheckpointSave save(mine);
    const auto saved = save.save({.store = store,
                                  .state = state,
                                  .tokenizer_model = std::nullopt,
                                  .began = std::chrono::steady_clock::now()});
    if (number == 0) folder = saved.folder;
  });
  return folder;
}

void Session::resume(const std::filesystem::path& place) {
  prepare("resume()");
  team_.run([&](int number) {
    std::optional<Checkpoint> checkpoint;
    std::optional<RunState> state;
    run_stage(*team_.comm(number), [&] {
      checkpoint = open_checkpoint_or_run(place);
      state = read_run_state(*checkpoint);
      const RunOptions& options = rank(number).options;
      check_same_training(state->config, options.config, *options.blocks, checkpoint->folder.string());
    });
    Engine& mine = engine(number);
    run_stage(*team_.comm(number), [&] { trireme::load_state(mine, checkpoint->folder, StateParts::kAll); });
    mine.set_steps_done(state->step);
    if (state->loss_scale) mine.set_loss_scale_state(*state->loss_scale);
    const std::string hash = agreed_hash(number);
    run_stage(*team_.comm(number), [&] {
      TRIREME_CHECK(hash == state->state_hash, "{}: the restored state has the hash {}, the manifest says {}",
                    checkpoint->folder.string(), hash, state->state_hash);
    });
  });
}

void Session::start_training(const Training& training) {
  check_process();
  refuse_during_training("train()");
  TRIREME_CHECK(ranks_.front().engine == nullptr,
                "train() begins with the state that the job names (model.init_from, or a checkpoint in {}), "
                "and this session has a state already: make a new session for it",
                training.out.string());
  stop_ = std::make_unique<StopRequest>(StopRequest::NoSignals::kYes);
  records_.clear();
  team_.start([this, training](int number) { train(number, training); });
  is_training_ = true;
  is_paused_ = false;
}

void Session::train(int number, const Training& training) {
  Rank& mine = rank(number);
  mine.options = settled(number, training.out);
  RunOptions options = mine.options;
  options.hooks = {.on_metrics =
                       [this](const std::string& line) {
                         const std::lock_guard lock(records_mutex_);
                         records_.push_back(line);
                       },
                   .after_step = [this, number] { team_.pause(number); },
                   .is_quiet = !training.prints};
  TrainingRun run = start_run(std::move(options));
  mine.engine = run.engine.get();
  Trainer trainer(std::move(run), *stop_);
  try {
    trainer.run();
  } catch (...) {
    mine.engine = nullptr;
    throw;
  }
  mine.owned = trainer.take_engine();
}

std::optional<std::string> Session::next_record(const RankTeam::Poll& poll) {
  check_process();
  for (;;) {
    {
      const std::lock_guard lock(records_mutex_);
      if (!records_.empty() && !stop_->requested()) {
        std::string line = std::move(records_.front());
        records_.pop_front();
        return line;
      }
    }
    if (!is_training_) return std::nullopt;
    if (std::exchange(is_paused_, false)) team_.resume();
    try {
      is_paused_ = is_training_ = team_.wait(poll);
    } catch (...) {
      is_training_ = false;
      throw;
    }
  }
}

void Session::request_stop() {
  if (stop_) stop_->request();
}

void Session::stop_training() {
  if (!is_training_) return;
  request_stop();
  next_record({});
}

}  // namespace trireme
