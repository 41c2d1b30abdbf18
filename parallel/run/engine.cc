#include "parallel/run/engine.h"

#include <fmt/core.h>

#include "parallel/comm/message_sums.h"
#include "parallel/layout/block_work.h"
#include "parallel/layout/fp8_support.h"
#include "parallel/layout/gradient_dtype.h"
#include "parallel/plan/validate.h"
#include "parallel/run/option_checks.h"
#include "parallel/run/state_hash.h"
#include "runtime/base/error.h"

namespace trireme {
namespace {

BatchLayout training_layout(const EngineOptions& options, int data_ranks) {
  return {.global_batch = options.global_batch,
          .micro_batch = options.micro_batch,
          .data_ranks = data_ranks,
          .assignment =
              options.layout.reduces_each_micro_batch() ? Assignment::kStrided : Assignment::kContiguous};
}

GradReductionOptions reduction_options(const EngineOptions& options, const Communicator& data_axis) {
  return {.reduction = options.reduction,
          .sharded = sharded_by(options.layout.zero),
          .reduce_each_micro_batch = options.layout.reduces_each_micro_batch(),
          .cut_exchanges = data_axis.spans_machines(),
          .dtype = options.precision.grad_dtype};
}

Context context_of(const EngineOptions& options) {
  Context ctx = Context::create(options.device, options.threads, options.memory_limit, options.backend);
  ctx.precision = options.precision;
  if (options.products && ctx.backend->product_choices != nullptr)
    ctx.backend->product_choices(ctx.exec).use(*options.products);
  return ctx;
}

// Messages are summed if their memory is the host's, see [Note: message sums].
std::shared_ptr<Communicator> world_of(const std::shared_ptr<Communicator>& comm,
                                       const EngineOptions& options) {
  const DeviceTraits& device = traits(options.device.type);
  const bool sums = options.verify_state && comm->size() > 1 && device.host_memory && device.computes;
  return sums ? with_message_sums(comm, options.threads) : comm;
}

StageMap stages_of(const EngineOptions& options, const BlockList& blocks) {
  const Layout& axes = options.layout;
  const StageCounts counts{
      .num_units = static_cast<int>(blocks.size()), .pipeline = axes.pipeline, .chunks = axes.chunks};
  if (axes.pipeline == 1) return StageMap::even(counts);
  if (!axes.cut.empty()) return StageMap::given(counts, axes.cut);
  return cut_by_work(blocks, *options.sample, axes.pipeline, axes.chunks);
}

TensorPlace tensor_place(const MeshGroups& groups) {
  return {.places = groups.mesh.size(Axis::kTensor), .place = groups.coord()[Axis::kTensor]};
}

// The rules of the job, and of the optimizer.
ParameterRules rules_of(const EngineOptions& options, const Optimizer& optimizer) {
  ParameterRules rules = options.rules;
  rules.separates_matrices = optimizer.updates_matrices();
  return rules;
}

}  // namespace

ExchangeChoice exchange_of(const EngineOptions& options, int num_ranks) {
  const Mesh mesh = mesh_of(num_ranks, options.layout.pipeline, options.layout.tensor);
  return choose_exchange(options.layout.exchange, mesh, options.hosts,
                         training_layout(options, mesh.size(Axis::kData)), options.reduction);
}

Engine::Engine(BlockList blocks, std::shared_ptr<Communicator> comm, const EngineOptions& options)
    : Engine(std::make_shared<const BlockList>(std::move(blocks)), std::move(comm), options) {}

Engine::Engine(std::shared_ptr<const BlockList> blocks, std::shared_ptr<Communicator> comm,
               const EngineOptions& options)
    : blocks_(std::move(blocks)),
      options_(on_hosts(checked(options), *comm)),
      exchange_(exchange_of(options_, comm->size())),
      groups_(split_mesh(world_of(comm, options),
                         mesh_of(comm->size(), options.layout.pipeline, options.layout.tensor),
                         exchange_.data_ranks_per_host)),
      batch_(training_layout(options, groups_.mesh.size(Axis::kData))),
      stages_(stages_of(options, *blocks_)),
      optimizer_(optimizer_of(options)),
      layout_(for_place(
          make_layout(*blocks_, options.layout.group_min_bytes, stages_, rules_of(options, *optimizer_)),
          tensor_place(groups_))),
      plan_(make_plan()),
      ctx_(context_of(options)),
      data_cache_(reserve_data_cache()),
      watchdog_(watch_over(comm, options.timeout_s)) {
  const Watchdog::Scope watch(watchdog_.get(), "the making of the engine");
  check_sequence(options_, *blocks_);
  if (ctx_.backend->native_stream != nullptr) comm->bind_stream(ctx_.backend->native_stream(ctx_.exec));
  if (stages_.pipeline > 1) {
    shapes_ = std::make_unique<BoundaryShapes>(*blocks_, options.precision, *options.sample,
                                               options.layout.sequence ? options.layout.tensor : 1);
  }
  check_fp8(ctx_, layout_);
  if (groups_.spans(Axis::kTensor)) {
    tensor_ = std::make_unique<TensorExchange>(*groups_.along(Axis::kTensor), options.layout.sequence);
    ctx_.tensor = tensor_.get();
  }
  dry_run_ = make_dry_run();
  if (groups_.spans(Axis::kPipeline)) {
    groups_.along(Axis::kPipeline)
        ->open_channels(channels_between_stages(stages_, ties_between_stages(layout_, stages_)));
  }
  check_gradient_dtype(ctx_, *optimizer_);
  params_ = std::make_unique<ParamStore>(
      ctx_, *blocks_, layout_, *optimizer_, DataAxis(groups_),
      ParamStoreOptions{.sharded = sharded_by(options.layout.zero),
                        .offload = options.offload,
                        .working_dtype = options.precision.compute_dtype(),
                        .seed = options.seed,
                        .ema = options.ema,
                        .ema_tau = options.ema_tau,
                        .holdings = holdings_of_stage(layout_, stages_, groups_.coord()[Axis::kPipeline]),
                        .memory_limit = options.memory_limit});
  gradients_ = std::make_unique<GradAccumulator>(
      layout_, batch_, reduction_options(options, *groups_.along(Axis::kData)), DataAxis(groups_));
  statistics_ = std::make_unique<StatisticStore>(ctx_, *blocks_, batch_, groups_, stages_);
  parts_.emplace(RankParts{.ctx = ctx_,
                           .blocks = *blocks_,
                           .layout = layout_,
                           .stages = stages_,
                           .groups = groups_,
                           .params = *params_,
                           .statistics = *statistics_,
                           .gradients = *gradients_,
                           .shapes = shapes_.get(),
                           .tensor = tensor_.get(),
                           .watchdog = watchdog_.get(),
                           .recompute = options.layout.recompute});
  clock_ = make_phase_clock(ctx_, groups_, options.cuda_graph ? Recorded::kYes : Recorded::kNo,
                            StepRecords::kMaxPending);
  tied_ = std::make_unique<TiedParameters>(*parts_);
  tied_->share();
  executor_ = std::make_unique<Executor>(*parts_, *tied_);
  executor_->time_actions(clock_.get());
  scaler_ = std::make_unique<LossScaler>(ctx_, options.loss_scale);
  records_ = std::make_unique<StepRecords>(ctx_, batch_.per_rank() * groups_.mesh.size(Axis::kData));
  if (options.verify_state) verifier_ = std::make_unique<StateVerifier>(*parts_);
  if (options.snapshots) snapshot_ = std::make_unique<StateSnapshot>(*parts_);
  optimizer_step_ =
      std::make_unique<OptimizerStep>(*parts_, OptimizerStep::Options{.optimizer = *optimizer_,
                                                                      .scaler = *scaler_,
                                                                      .max_norm = options.grad_clip,
                                                                      .verifier = verifier_.get()});
  graph_ = make_graph();
}

std::unique_ptr<DryRun> Engine::make_dry_run() {
  if (!groups_.spans(Axis::kPipeline) || !is_asynchronous()) return nullptr;
  auto dry_run = std::make_unique<DryRun>(
      DryRun::Options{.ctx = ctx_,
                      .blocks = *blocks_,
                      .stages = stages_,
                      .stage = groups_.coord()[Axis::kPipeline],
                      .shapes = *shapes_,
                      .sample = *options_.sample,
                      .recomputes = options_.layout.recomputes_segments(),
                      .recompute = options_.layout.recompute,
                      .two_part_backward = options_.layout.schedule == PipelineSchedule::kZeroBubbleH1});
  dry_run->cover({.num_samples = batch_.micro_batch, .training = true});
  if (tensor_) tensor_->forget_calls();
  ctx_.allocator->give_back();
  return dry_run;
}

std::unique_ptr<StepGraph> Engine::make_graph() const {
  return options_.cuda_graph ? std::make_unique<StepGraph>(ctx_, groups_.world) : nullptr;
}

// Reserves the whole cache: how much a data set fills is unknown before it is read.
Buffer Engine::reserve_data_cache() const {
  const int stage = groups_.coord()[Axis::kPipeline];
  const bool reads = stage == 0 || stage == groups_.mesh.size(Axis::kPipeline) - 1;
  if (options_.data_cache_bytes == 0 || !traits(options_.device.type).host_memory || !reads) return {};
  const MemoryHolderScope holder(*ctx_.allocator, "data.cache");
  return {ctx_.allocator, static_cast<std::size_t>(options_.data_cache_bytes), MemoryCategory::kData};
}

StepPlan Engine::make_plan() const {
  StepPlan plan = plan_training_step(static_cast<int>(blocks_->size()), groups_.mesh, batch_, plan_options());
  if (options_.rewrite_plan) options_.rewrite_plan(plan);
  if (options_.planning == Planning::kAllRanks) validate(plan);
  return plan;
}

PlanOptions Engine::plan_options() const {
  const ShardedState sharded = sharded_by(options_.layout.zero);
  std::vector<bool> statistics;
  for (const auto& block : *blocks_) statistics.push_back(has_statistics(*block, options_.precision));
  std::vector<TensorCalls> tensor_calls;
  for (const auto& block : *blocks_) {
    if (!groups_.spans(Axis::kTensor)) break;
    tensor_calls.push_back(options_.layout.sequence ? block->sequence_calls().value_or(TensorCalls{})
                                                    : block->tensor_calls());
  }
  return {.layout = options_.layout,
          .gather_gradients = !sharded.optimizer && options_.reduction == Reduction::kCanonical,
          .data_ranks_per_host = exchange_.data_ranks_per_host,
          .stages = stages_,
          .ties = trained_ties(layout_, stages_),
          .tensor_calls = tensor_calls,
          .statistics = statistics,
          .only_rank = options_.planning == Planning::kOwnRank ? groups_.world->rank() : -1};
}

Engine::~Engine() = default;

void Engine::refresh_parameters() {
  params_->refresh_working();
  tied_->share();
  if (verifier_) verifier_->forget();
}

void Engine::set_steps_done(std::int64_t steps) {
  steps_done_ = steps;
  scaler_->write(ctx_, {.updates = static_cast<std::int32_t>(steps)});
}

// Enqueues a step or replays the recorded one. Returns its losses.
Tensor Engine::run_step(ExecutionInput& input, MemoryStats& memory) {
  const auto enqueue = [&] { return executor_->run(own_plan(plan_), input, optimizer_step_.get()); };
  if (graph_) graph_->upload(own_plan(plan_), stages_, groups_.coord()[Axis::kData], input);
  if (graph_ && !optimizer_step_->is_observed()) {
    params_->settle();  // a graph starts and ends with nothing else in flight
    Tensor losses = graph_->run(input, [&] {
      Tensor enqueued = enqueue();
      params_->settle();
      return enqueued;
    });
    memory = graph_->memory();
    return losses;
  }
  if (graph_) graph_->reset();  // an observed step calls the host
  Tensor losses = enqueue();
  memory = ctx_.allocator->stats();
  return losses;
}

ExecutionInput Engine::step_input(const BatchSource& source, std::int64_t num_targets,
                                  std::int64_t step) const {
  return {.source = source,
          .batch = batch_,
          .num_targets = num_targets,
          .rng = {.seed = options_.seed, .step = static_cast<std::uint32_t>(step)},
          .training = true,
          .gradient_scale = scaler_->scale(),
          .observe_loss = observe_loss_};
}

BatchSource Engine::timed(const BatchSource& source) const {
  return [&source, clock = clock_.get()](std::int64_t first, std::int64_t count) {
    if (clock != nullptr) clock->begin_data_wait();
    HostBatch batch = source(first, count);
    if (clock != nullptr) clock->end_data_wait();
    return batch;
  };
}

StepResult Engine::step(const BatchSource& source, std::int64_t num_targets, double lr) {
  TRIREME_CHECK(num_pending() == 0, "{} step(s) wait to be collected before another one is asked for",
                num_pending());
  enqueue_step(source, num_targets, lr);
  return collect();
}

void Engine::enqueue_step(const BatchSource& source, std::int64_t num_targets, double lr) {
  TRIREME_CHECK(num_targets >= 0, "a step cannot have {} targets", num_targets);
  TRIREME_CHECK(num_pending() < StepRecords::kMaxPending,
                "{} steps are under way: collect the oldest one first", num_pending());
  ctx_.allocator->reset_peak();
  const std::int64_t sent_before = groups_.sent_bytes();
  const double exposed_before = groups_.exposed_ms();
  optimizer_step_->set_learning_rate(lr);
  if (clock_) clock_->begin();
  ExecutionInput input = step_input(timed(source), num_targets, steps_done_);
  MemoryStats memory;
  const ProfiledRange range(device_marks_of(*ctx_.backend, ctx_.exec), [&] {
    return fmt::format("step {}{}", steps_done_ + 1, graph_ ? " (graph)" : "");
  });
  const Tensor losses = run_step(input, memory);
  if (!graph_ || !graph_->replayed()) enqueued_bytes_ = groups_.sent_bytes() - sent_before;
  ++steps_done_;
  records_->add(ctx_,
                {.step = steps_done_,
                 .memory = memory,
                 .sent_bytes = enqueued_bytes_,
                 .comm_wait_ms = groups_.exposed_ms() - exposed_before},
                losses, optimizer_step_->grad_norm(), *scaler_, statistics_->num_clipped());
}

void Engine::refuse_recorded(const char* what) const {
  if (!graph_) return;
  throw Error(ErrorCode::kUnsupported, "a recorded step (EngineOptions::cuda_graph) cannot {}", what);
}

void Engine::observe_losses(LossObserver observer) {
  refuse_recorded("show its losses to the host");
  observe_loss_ = std::move(observer);
}

void Engine::leave_out_steps(std::function<bool(float loss, float grad_norm)> decide) {
  refuse_recorded("wait for the host to decide about its update");
  if (!decide) return optimizer_step_->leave_out_where({});
  optimizer_step_->leave_out_where([this, decide = std::move(decide)](const Tensor& losses) {
    const float loss = tree_sum(in_global_order(ctx_.to_host(losses), batch_));
    return decide(loss, ctx_.to_host(optimizer_step_->grad_norm()).front());
  });
}

StepResult Engine::collect() {
  StepRecords::Record record = records_->take(ctx_);
  if (clock_) record.result.phases = clock_->take();
  record.result.loss = tree_sum(in_global_order(record.losses, batch_));
  return record.result;
}

float Engine::evaluate(const BatchSource& source, std::int64_t num_samples, std::int64_t num_targets,
                       const LogitsObserver& observe, Weights weights) {
  TRIREME_CHECK(num_samples > 0 && num_targets > 0, "nothing to evaluate: {} samples, {} targets",
                num_samples, num_targets);
  TRIREME_CHECK(weights == Weights::kParameters || params_->has_averages(),
                "there are no averages to evaluate: EngineOptions::ema is 0");
  const BatchLayout batch{.global_batch = num_samples,
                          .micro_batch = options_.micro_batch,
                          .data_ranks = groups_.mesh.size(Axis::kData)};
  PlanOptions how = plan_options();
  if (observe && options_.layout.sequence) {  // the last block runs twice: see StageCompute::observe_logits
    std::vector<TensorCall>& calls = how.tensor_calls.back().forward;
    calls.insert(calls.end(), calls.begin(), calls.end());
  }
  how.evaluates_averages = weights == Weights::kAverages;
  StepPlan plan = plan_evaluation(static_cast<int>(blocks_->size()), groups_.mesh, batch, how);
  if (options_.rewrite_plan) options_.rewrite_plan(plan);
  if (options_.planning == Planning::kAllRanks) validate(plan);
  const ExecutionInput input{.source = source,
                             .batch = batch,
                             .num_targets = num_targets,
                             .rng = {},
                             .training = false,
                             .observe_logits = observe};
  for (std::int64_t m = 0; dry_run_ && m < batch.per_rank(); ++m) {
    dry_run_->cover(
        {.num_samples = batch.samples_of(groups_.coord()[Axis::kData], m).count, .training = false});
    if (tensor_) tensor_->forget_calls();
  }
  const std::vector<float> all = executor_->evaluate(own_plan(plan), input, optimizer_step_.get());
  return tree_sum(in_global_order(all, batch));
}

// Losses are ordered by rank and local micro-batch. The tree needs them by global micro-batch, without gaps.
std::vector<float> Engine::in_global_order(const std::vector<float>& losses, const BatchLayout& batch) const {
  std::vector<float> ordered(static_cast<std::size_t>(batch.num_micro_batches()));
  for (int r = 0; r < batch.data_ranks; ++r) {
    for (std::int64_t m = 0; m < batch.per_rank(); ++m) {
      const auto g = static_cast<std::size_t>(batch.global_micro_batch(r, m));
      if (g < ordered.size()) ordered[g] = losses[static_cast<std::size_t>(r * batch.per_rank() + m)];
    }
  }
  return ordered;
}

Tensor Engine::infer(const HostBatch& batch, KeyValueCache* cache) {
  return executor_->infer(batch, cache);
}

std::uint64_t Engine::state_hash() const {
  return trireme::state_hash(*parts_);
}

std::optional<NonFiniteGradient> Engine::find_non_finite_gradient(const StepResult& skipped,
                                                                  const BatchSource& source,
                                                                  std::int64_t num_targets) {
  NonFiniteSearch search(*parts_, batch_, *optimizer_step_);
  // The replay reuses both buffers below, so that it needs no more memory than the step.
  const auto in_sums = skipped.step == steps_done_ ? search.find_in_sums() : std::nullopt;
  ExecutionInput input = step_input(source, num_targets, skipped.step - 1);
  input.observe_leaves = [&](int micro_batch, const auto& leaf) { search.look(micro_batch, leaf); };
  if (input.gradient_scale.defined()) {
    input.gradient_scale = optimizer_step_->clip_coefficient();
    ctx_.backend->copy_from_host(ctx_.exec, input.gradient_scale, &skipped.loss_scale);
  }
  if (graph_) graph_->reset();
  executor_->run(own_plan(plan_), input, nullptr);
  statistics_->discard_maxima();
  const auto found = search.first_of_ranks();
  return found ? found : in_sums;
}

}  // namespace trireme
