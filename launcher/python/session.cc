#include "launcher/python/session.h"

#include <unistd.h>

#include <algorithm>
#include <chrono>
#include <cstring>
#include <limits>
#include <map>
#include <span>
#include <utility>

#include "launcher/families/model_family.h"
#include "launcher/host/agreement.h"
#include "launcher/job/build.h"
#include "launcher/python/computing_thread.h"
#include "launcher/train/evaluation.h"
#include "parallel/run/checkpoint_state.h"
#include "parallel/run/saved_tensors.h"
#include "runtime/base/error.h"

namespace trireme {
namespace {

/// Options that this kind of session supports.
Session::Options checked(Session::Options options) {
  const JobConfig& config = options.job.config;
  const LaunchEnvironment launch = read_launch_environment();
  if (launch.num_ranks > 1 && !options.place.mpi) {
    throw Error(ErrorCode::kUnsupported,
                "this process is rank {} of {} of {}, and the session has no communicator: pass "
                "comm=MPI.COMM_WORLD of mpi4py, use `trireme train`, or start Python without a launcher",
                launch.rank, launch.num_ranks, launch.launcher);
  }
  TRIREME_CHECK(options.place.num_ranks >= 1, "local={}: a session has 1 rank or more",
                options.place.num_ranks);
  TRIREME_CHECK(!options.job.data || config.data.kind == DataKind::kSynthetic,
                "data.kind = \"{}\": samples of Python replace those of data.kind = \"synthetic\"; set it",
                to_word(config.data.kind));
  OwnBlocks& own = options.job.blocks;
  if (!own && !options.loss) return options;
  const ParallelSection& parallel = config.parallel;
  const auto refuse = [](bool refused, const char* reason) {
    if (refused)
      throw Error(ErrorCode::kUnsupported, "blocks or a loss of a program cannot be used with {}", reason);
  };
  refuse(config.model.has_adapters(), "adapters (train.lora)");
  const bool is_measured =
      parallel.layout.pipeline > 1 && parallel.pipeline_cut.kind == PipelineCut::Kind::kMeasured;
  refuse(parallel.is_searched() || is_measured,
         "a layout or pipeline cut that is chosen by measurements of the job's model");
  refuse(options.loss && parallel.layout.tensor > 1, "parallel.tensor above 1, if the loss is in Python");
  if (!options.loss) return options;
  own = [inner = own, loss = options.loss](BlockList blocks) {
    if (inner) blocks = inner(std::move(blocks));
    blocks.back() = with_own_loss(std::move(blocks.back()), loss);
    return blocks;
  };
  return options;
}

}  // namespace

Session::Session(Options options)
    : options_(checked(std::move(options))),
      sample_(given_samples(sample_spec(config()))),
      lr_(lr_schedule(config())),
      process_(::getpid()),
      team_(options_.place.communicators(config().parallel.timeout_s.seconds), options_.place.first_rank(),
            options_.place.spin_time(config().parallel.threads)) {
  for (int number = 0; number < team_.size(); ++number)
    ranks_.emplace_back(options_.job, options_.place.of(team_.comm(number)));
  if (options_.place.mpi)
    listener_ = options_.place.mpi->listen([this](const Error& verdict) { team_.give_up(verdict); });
}

Session::~Session() {
  try {
    stop_training();
    if (partial_) partial_->abandon();
  } catch (const std::exception&) {
    // Reported by the call that closed the session, if there was one.
  }
  if (options_.place.mpi) options_.place.mpi->unlisten(listener_);
  try {
    // Engines belong to their threads: ranks of a pipeline leave together.
    team_.run([this](int number) { ranks_[static_cast<std::size_t>(number)].drop_engine(); });
  } catch (const std::exception&) {
  }
}

bool Session::can_end() {
  if (::getpid() != process_) return false;
  if (!options_.place.mpi) return true;
  if (const auto failure = team_.broken()) options_.place.mpi->fail(*failure);
  return !options_.place.mpi->has_failed();
}

void Session::check_process() const {
  TRIREME_CHECK(::getpid() == process_,
                "this session belongs to process {}, whose threads this fork of it does not have: make a "
                "session after the fork",
                process_);
}

void Session::prepare(const char* what, During allowed) {
  check_process();
  TRIREME_CHECK(!is_training_ || allowed == During::kTraining,
                "{} during train(): take its last record, or close its generator, first", what);
  TRIREME_CHECK(!partial_ || !partial_->is_in_progress(),
                "{} during a step in parts: finish it with update() first", what);
  if (engine_of_first() != nullptr) return;
  team_.run([this](int number) { ranks_[static_cast<std::size_t>(number)].make_engine(); }, options_.poll);
}

void Session::on_ranks(const RankTeam::Work& work) {
  team_.run(
      [&](int number) {
        bind_thread(engine(number).context());
        work(number);
      },
      options_.poll);
}

std::int64_t Session::steps_done() const {
  const Engine* const engine = engine_of_first();
  return engine == nullptr ? 0 : engine->steps_done();
}

StepResult Session::step(const Samples& samples, std::optional<double> lr) {
  check_samples(sample_, config().model, samples);
  const std::int64_t wanted = config().train.global_batch;
  TRIREME_CHECK(samples.count == wanted, "a step takes train.global_batch = {} samples, and inputs have {}",
                wanted, samples.count);
  prepare("step()", During::kNothing);
  StepResult result;
  const std::int64_t targets = num_targets(sample_, samples);
  const double given = rate(lr);
  on_ranks([&](int number) {
    const auto begin = std::chrono::steady_clock::now();
    StepResult mine = engine(number).step(source_of(sample_, samples), targets, given);
    if (number != 0) return;
    engine_us_ = std::chrono::duration<double, std::micro>(std::chrono::steady_clock::now() - begin).count();
    result = std::move(mine);
  });
  return result;
}

PartialStep& Session::partial() {
  check_process();
  if (partial_ && partial_->is_in_progress()) return *partial_;
  prepare("a step in parts", During::kNothing);
  if (partial_) return *partial_;
  std::vector<PartialStep::Rank> ranks;
  for (const SessionRank& rank : ranks_) ranks.push_back({.engine = rank.engine(), .comm = &rank.comm()});
  partial_ = std::make_unique<PartialStep>(PartialStep::Options{
      .team = team_, .ranks = std::move(ranks), .sample = sample_, .poll = options_.poll});
  return *partial_;
}

std::vector<std::vector<std::int64_t>> Session::rounds() {
  return partial().rounds();
}

float Session::forward(const Samples& samples, std::optional<std::int64_t> num_targets) {
  check_samples(sample_, config().model, samples);
  return partial().forward(samples, num_targets);
}

void Session::backward() {
  partial().backward();
}

StepResult Session::update(std::optional<double> lr) {
  return partial().update(rate(lr));
}

float Session::evaluate(const Samples& samples) {
  check_samples(sample_, config().model, samples);
  const std::int64_t targets = num_targets(sample_, samples);
  TRIREME_CHECK(targets > 0, "targets are all -1: there is nothing to evaluate");
  prepare("evaluate()", During::kTraining);
  float loss = 0;
  on_ranks([&](int number) {
    const float mine = engine(number).evaluate(source_of(sample_, samples), samples.count, targets);
    if (number == 0) loss = mine;
  });
  return loss;
}

EvalMetrics Session::evaluate_data() {
  prepare("evaluate()", During::kTraining);
  EvalMetrics metrics;
  std::shared_ptr<const Dataset> data;
  const std::optional<JobData>& own = options_.job.data;
  if (own) data = own->eval;
  TRIREME_CHECK(!own || data, "the session has no eval= data set");
  if (!data) {
    TRIREME_CHECK(!config().data.eval.empty(), "data.eval is empty: set it, or pass inputs and targets");
    data = open_eval_data(config(), false).eval;
  }
  EvaluationOptions evaluation = evaluation_of(config(), data);
  check_has_targets(evaluation);
  on_ranks([&](int number) {
    EvaluationOptions mine = evaluation;
    mine.workers = num_data_workers(config(), 1);
    if (engine(number).parameters().has_averages()) mine.weights = Weights::kAverages;
    EvalMetrics found = trireme::evaluate(engine(number), mine);
    if (number == 0) metrics = std::move(found);
  });
  return metrics;
}

void Session::logits(const Samples& samples, GatheredLogits& all) {
  check_samples(sample_, config().model, samples);
  prepare("logits()", During::kTraining);
  on_ranks([&](int number) {
    Engine& mine = engine(number);
    const Coord coord = mine.groups().coord();
    const BatchLayout batch{.global_batch = samples.count,
                            .micro_batch = config().train.micro_batch,
                            .data_ranks = mine.groups().mesh.size(Axis::kData)};
    std::int64_t local = 0;
    mine.evaluate(source_of(sample_, samples), samples.count,
                  std::max<std::int64_t>(1, num_targets(sample_, samples)),
                  [&](const Tensor& logits, const Batch&) {
                    const auto [first, count] = batch.samples_of(coord[Axis::kData], local++);
                    all.add(samples.count, first, count, logits.shape(), mine.context().to_host(logits));
                  });
    if (options_.place.mpi) all.combine(*team_.comm(number));
  });
}

std::vector<std::int32_t> Session::generate(const std::vector<std::int32_t>& prompt,
                                            SamplingOptions options) {
  const ModelSection& model = config().model;
  TRIREME_CHECK(family_of(model).writes_text, "a {} writes no text", model.name);
  for (const std::int32_t token : prompt) {
    TRIREME_CHECK(token >= 0 && token < model.vocab,
                  "the prompt has token {}, and must have tokens from 0 to {}", token, model.vocab - 1);
  }
  options.context = family_of(model).is_recurrent ? std::numeric_limits<std::int64_t>::max() : model.seq_len;
  options.vocab = model.vocab;
  TRIREME_CHECK(options.choices >= 0 && options.choices <= model.vocab, "vocab={}: the model has {} tokens",
                options.choices, model.vocab);
  prepare("generate()", During::kTraining);
  std::vector<std::int32_t> tokens;
  on_ranks([&](int number) {
    std::vector<std::int32_t> mine = trireme::generate(engine(number), prompt, options);
    if (number == 0) tokens = std::move(mine);
  });
  return tokens;
}

std::vector<SafetensorsEntry> Session::state_entries() {
  prepare("state_dict()", During::kTraining);
  return entries_of(model_tensors(engine(0)));
}

void Session::read_state(const std::vector<NamedFloats>& tensors) {
  prepare("state_dict()", During::kTraining);
  std::map<std::string, float*> values;
  for (const NamedFloats& tensor : tensors) {
    values.emplace(tensor.entry.name, tensor.values.data());
    std::ranges::fill(tensor.values, kMissing);
  }
  std::mutex mutex;  // ranks that hold the same values write the same memory
  on_ranks([&](int number) {
    visit_model(engine(number),
                [&](const std::string& name, std::uint64_t first, std::span<const float> piece) {
                  const std::lock_guard lock(mutex);
                  std::memcpy(values.at(name) + first, piece.data(), piece.size_bytes());
                });
  });
  if (!options_.place.mpi) return;
  on_ranks([&](int) {
    for (const NamedFloats& tensor : tensors) combine(*team_.comm(0), tensor.values);
  });
}

std::vector<Session::Shard> Session::read_shards() {
  prepare("sharded_state_dict()", During::kTraining);
  std::vector<Shard> shards;
  std::mutex mutex;
  on_ranks([&](int number) {
    const int rank = team_.comm(number)->rank();
    visit_model(engine(number),
                [&](const std::string& name, std::uint64_t first, std::span<const float> piece) {
                  const std::lock_guard lock(mutex);
                  shards.push_back({rank, name, first, {piece.begin(), piece.end()}});
                });
  });
  std::ranges::stable_sort(shards, {}, &Shard::rank);
  return shards;
}

void Session::load_state(const std::vector<NamedFloats>& tensors) {
  prepare("load_state_dict()", During::kNothing);
  on_ranks([&](int number) {
    std::optional<NamedTensors> source;
    run_stage(*team_.comm(number), [&] {  // processes may have different shards
      source.emplace(tensors);
      check_model(engine(number), *source);
    });
    load_model(engine(number), *source);
  });
}

std::string Session::state_hash() {
  prepare("state_hash()", During::kTraining);
  std::string hash;
  on_ranks([&](int number) {
    std::string mine = ranks_[static_cast<std::size_t>(number)].agreed_hash();
    if (number == 0) hash = std::move(mine);
  });
  return hash;
}

std::filesystem::path Session::save(const std::filesystem::path& out) {
  prepare("save()", During::kNothing);
  std::string folder;
  on_ranks([&](int number) {
    const std::string mine = ranks_[static_cast<std::size_t>(number)].save(out).string();
    const std::string of_first = text_of_rank(*team_.comm(number), 0, mine);
    if (number == 0) folder = of_first;
  });
  return folder;
}

void Session::resume(const std::filesystem::path& place) {
  prepare("resume()", During::kNothing);
  on_ranks([&](int number) { ranks_[static_cast<std::size_t>(number)].resume(place); });
}

void Session::start_training(const Training& training) {
  check_process();
  TRIREME_CHECK(!is_training_, "train() during train(): take its last record, or close its generator, first");
  TRIREME_CHECK(engine_of_first() == nullptr,
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
  TrainingHooks hooks{.on_metrics = {}, .after_step = {}, .is_quiet = !training.prints};
  hooks.on_metrics = [this](const std::string& line) {
    const std::lock_guard lock(records_mutex_);
    (options_.place.mpi ? new_records_ : records_).push_back(line);
  };
  hooks.after_step = [this, number] {
    if (options_.place.mpi) share_records();
    team_.pause(number);
  };
  ranks_[static_cast<std::size_t>(number)].train(training.out, std::move(hooks), *stop_);
  if (options_.place.mpi) share_records();
}

// Rank 0 of a job writes the metrics, and every process yields them.
void Session::share_records() {
  std::string lines;
  for (const std::string& line : std::exchange(new_records_, {})) lines += line + '\n';
  lines = text_of_rank(*team_.comm(0), 0, lines);
  const std::lock_guard lock(records_mutex_);
  for (std::size_t begin = 0; begin < lines.size();) {
    const std::size_t end = lines.find('\n', begin);
    records_.push_back(lines.substr(begin, end - begin));
    begin = end + 1;
  }
}

std::optional<std::string> Session::next_record() {
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
      is_paused_ = is_training_ = team_.wait(options_.poll);
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
  next_record();
}

}  // namespace trireme
