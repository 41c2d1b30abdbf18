// Trains a GPT-2 of the given sizes and prints one JSON object: milliseconds per step, tokens/s, the loss and
// gradient norm of every step, predicted and measured peak bytes.
//
//   gpt_train_bench --layers 12 --hidden 768 --heads 12 --vocab 50257 --context 512 --micro-batch 4 --threads
//   2
//   gpt_train_bench --train train.bin --eval eval.bin ...    on token shards, with an evaluation at the end
//   gpt_train_bench --sgemm                                  the machine's sgemm rate instead
//
// peers/gpt_pytorch.py takes the same sizes; gpt_vs_pytorch.py runs both side by side.
#include <fmt/format.h>

#include <CLI/CLI.hpp>
#include <algorithm>
#include <chrono>
#include <memory>
#include <nlohmann/json.hpp>
#include <string>
#include <vector>

#include "models/gpt.h"
#include "parallel/comm/local.h"
#include "parallel/foresee/predict.h"
#include "parallel/foresee/product_measure.h"
#include "parallel/run/engine.h"
#include "runtime/data/synthetic_tokens.h"
#include "runtime/data/token_dataset.h"
#include "runtime/optim/lr_schedule.h"
#include "tests/bench/sgemm_rate.h"

namespace trireme::bench {
namespace {

struct Options {
  GptConfig model{.layers = 4, .hidden = 128, .heads = 4, .vocab = 256, .seq_len = 64};
  std::int64_t micro_batch = 12, accumulation = 1;
  int threads = 2, ranks = 1, zero = 0;
  std::int64_t steps = 20, warmup = 3;  // steps to time, and steps before them
  LrSchedule lr{.kind = LrSchedule::Kind::kCosine, .peak = 1e-3, .floor = 1e-4, .warmup_steps = 100};
  OptimizerConfig optimizer{.weight_decay = 0.1f, .beta2 = 0.99f};
  float grad_clip = 1.0f;
  bool fast_reduction = false;
  bool cuda_graph = false;
  bool tune_products = false;
  std::shared_ptr<const ProductTable> products;  // measured
  std::uint64_t seed = 1;
  std::string device = "cpu", precision = "fp32";
  std::string train, eval;  // token shards; empty: synthetic tokens, no evaluation
  bool sgemm = false;
  bool state_hash = false;

  std::int64_t global_batch() const { return micro_batch * accumulation * ranks; }
};

void add_options(CLI::App& app, Options& o) {
  app.add_option("--layers", o.model.layers);
  app.add_option("--hidden", o.model.hidden);
  app.add_option("--heads", o.model.heads);
  app.add_option("--vocab", o.model.vocab);
  app.add_option("--context", o.model.seq_len);
  app.add_option("--tensor-chunks", o.model.tensor_chunks, "groups that sums are made in");
  app.add_option("--micro-batch", o.micro_batch, "samples a forward");
  app.add_option("--accumulation", o.accumulation, "micro-batches a step and rank");
  app.add_option("--threads", o.threads, "threads a rank");
  app.add_option("--ranks", o.ranks, "ranks, threads of this process");
  app.add_option("--zero", o.zero, "what ranks share: 0 to 3")->check(CLI::Range(0, 3));
  app.add_option("--steps", o.steps, "steps to time");
  app.add_option("--warmup", o.warmup, "steps before them");
  app.add_option("--lr", o.lr.peak);
  app.add_option("--min-lr", o.lr.floor);
  app.add_option("--lr-warmup", o.lr.warmup_steps);
  app.add_option("--seed", o.seed);
  app.add_option("--device", o.device, "cpu or cuda")->check(CLI::IsMember({"cpu", "cuda"}));
  app.add_option("--precision", o.precision, "fp32, tf32, fp16 (with dynamic loss scaling), bf16 or fp8")
      ->check(CLI::IsMember({"fp32", "tf32", "fp16", "bf16", "fp8"}));
  app.add_option("--train", o.train, "token shard to train on (default: synthetic tokens)");
  app.add_option("--eval", o.eval, "token shard to evaluate on, whole, after the last step");
  app.add_flag("--fast-reduction", o.fast_reduction);
  app.add_flag("--cuda-graph", o.cuda_graph, "record a step and play it");
  app.add_flag("--tune-products", o.tune_products,
               "measure the algorithms of products, as parallel.tune_products");
  app.add_flag("--state-hash", o.state_hash, "hash parameters and optimizer state after the last step");
  app.add_flag("--sgemm", o.sgemm, "measure the machine's sgemm rate and nothing else");
}

// Operations of a forward and backward pass for one token: 6 for each weight of a matrix product (the token
// table counts as the head, the position table is in no product), and 6 L T C for the two products of causal
// attention, half of which are masked.
double flops_per_token(const GptConfig& m, std::int64_t num_parameters) {
  const std::int64_t lookups = m.hidden * (m.seq_len + (m.tied ? 0 : m.vocab));
  return 6.0 * static_cast<double>(num_parameters - lookups) +
         6.0 * static_cast<double>(m.layers * m.seq_len * m.hidden);
}

std::shared_ptr<const Dataset> open_train(const Options& o) {
  if (o.train.empty()) {
    return std::make_shared<SyntheticTokens>(SyntheticTokens::Options{.num_samples = 1000,
                                                                      .sequence_length = o.model.seq_len,
                                                                      .vocab_size = o.model.vocab,
                                                                      .seed = o.seed});
  }
  auto data = std::make_shared<TokenDataset>(
      TokenDataset::Options{.path = o.train, .sequence_length = o.model.seq_len, .seed = o.seed});
  data->check_vocab(o.model.vocab);
  return data;
}

float evaluate(const Options& o, Engine& engine) {
  const TokenDataset data({.path = o.eval, .sequence_length = o.model.seq_len, .seed = o.seed});
  data.check_vocab(o.model.vocab);
  return engine.evaluate(
      [&](std::int64_t first, std::int64_t count) { return data.read_sequential(first, count); },
      data.num_samples(), data.num_samples() * data.targets_per_sample());
}

EngineOptions engine_options(const Options& o) {
  return {.device = {o.device == "cuda" ? DeviceType::kCuda : DeviceType::kCpu, 0},
          .threads = o.threads,
          .global_batch = o.global_batch(),
          .micro_batch = o.micro_batch,
          .seed = o.seed,
          .optimizer = o.optimizer,
          .grad_clip = o.grad_clip,
          .reduction = o.fast_reduction ? Reduction::kFast : Reduction::kCanonical,
          .layout = {.zero = static_cast<ZeroStage>(o.zero)},
          .cuda_graph = o.cuda_graph,
          .products = o.products,
          .precision = Precision(*find_precision_mode(o.precision)),
          .loss_scale = {.kind = o.precision == "fp16" ? LossScaleConfig::Kind::kDynamic
                                                       : LossScaleConfig::Kind::kOff}};
}

PlannedJob planned_job(const Options& o) {
  return {.blocks = std::make_shared<const BlockList>(build_gpt(o.model)),
          .options = engine_options(o),
          .sample = {.input = {o.model.seq_len}, .target = {o.model.seq_len}},
          .num_ranks = o.ranks};
}

std::int64_t predicted_peak_bytes(const Options& o, int rank) {
  const PlannedJob job = planned_job(o);
  return predict_step(job.blocks, job.options, job.sample, job.num_ranks, rank).memory.peak_total;
}

// Measures products before the ranks start. Returns the measurements and their duration in seconds.
nlohmann::json tune_products(Options& o) {
  const auto start = std::chrono::steady_clock::now();
  const PlannedJob job = planned_job(o);
  o.products = std::make_shared<const ProductTable>(
      measure_products(job, {.device = job.options.device, .threads = o.threads, .known = {}}));
  const std::chrono::duration<double> seconds = std::chrono::steady_clock::now() - start;
  nlohmann::json choices = nlohmann::json::array();
  for (const auto& [product, choice] : *o.products) {
    choices.push_back({{"product", to_string(product)},
                       {"algorithm", choice.description},
                       {"candidate", choice.candidate},
                       {"candidates", choice.num_candidates},
                       {"us", choice.us},
                       {"first_us", choice.first_us}});
  }
  return {{"tune_s", seconds.count()}, {"products", choices}};
}

nlohmann::json describe_memory(const Options& o, const Engine& engine, const StepResult& last, int rank) {
  return {{"peak_bytes", last.memory.peak_total},
          {"predicted_peak_bytes", predicted_peak_bytes(o, rank)},
          {"workspace_bytes", last.memory.peak[MemoryCategory::kWorkspace]},
          {"reserved_bytes", engine.context().allocator->reserved_bytes()}};
}

nlohmann::json describe_times(std::vector<double> step_ms, std::int64_t tokens) {
  if (step_ms.empty()) return nlohmann::json::object();
  nlohmann::json report{{"all_step_ms", step_ms}};
  std::ranges::sort(step_ms);
  const double median = step_ms[step_ms.size() / 2];
  report["step_ms"] = median;
  report["min_step_ms"] = step_ms.front();
  report["tokens_per_s"] = static_cast<double>(tokens) * 1e3 / median;
  return report;
}

nlohmann::json train(const Options& o, const std::shared_ptr<Communicator>& comm) {
  using Clock = std::chrono::steady_clock;
  const std::shared_ptr<const Dataset> data = open_train(o);
  Engine engine(build_gpt(o.model), comm, engine_options(o));
  LrSchedule lr = o.lr;
  lr.total_steps = o.warmup + o.steps;
  const std::int64_t tokens = o.global_batch() * o.model.seq_len;
  std::vector<double> step_ms;
  std::vector<float> losses, grad_norms;
  StepResult result;
  for (std::int64_t step = 0; step < lr.total_steps; ++step) {
    const Clock::time_point start = Clock::now();
    result = engine.step(
        [&](std::int64_t first, std::int64_t count) {
          return data->read_train(step * o.global_batch() + first, count);
        },
        tokens, lr.at(step));
    if (step >= o.warmup) {
      step_ms.push_back(std::chrono::duration<double, std::milli>(Clock::now() - start).count());
    }
    losses.push_back(result.loss);
    grad_norms.push_back(result.grad_norm);
  }
  const std::int64_t num_parameters = engine.layout().num_parameters;
  nlohmann::json report{{"parameters", num_parameters},
                        {"flops_per_token", flops_per_token(o.model, num_parameters)},
                        {"tokens_per_step", tokens},
                        {"loss", result.loss},
                        {"losses", losses},
                        {"grad_norms", grad_norms}};
  report.update(describe_memory(o, engine, result, comm->rank()));
  report.update(describe_times(step_ms, tokens));
  if (o.state_hash) report["state_hash"] = fmt::format("{:016x}", engine.state_hash());
  if (!o.eval.empty()) report["eval_loss"] = evaluate(o, engine);
  return report;
}

int run(int argc, char** argv) {
  CLI::App app("Times training steps of a GPT-2.");
  Options options;
  add_options(app, options);
  CLI11_PARSE(app, argc, argv);
  if (options.sgemm) {
    fmt::print("{}\n", nlohmann::json{{"sgemm_gflops", measure_sgemm_gflops(options.threads, 12)}}.dump());
    return 0;
  }
  try {
    const nlohmann::json tuning = options.tune_products ? tune_products(options) : nlohmann::json::object();
    nlohmann::json report;
    run_local_ranks(options.ranks, [&](const std::shared_ptr<Communicator>& comm) {
      nlohmann::json mine = train(options, comm);
      if (comm->rank() == 0) report = std::move(mine);
    });
    report.update(tuning);
    fmt::print("{}\n", report.dump());
  } catch (const std::exception& e) {
    fmt::print(stderr, "gpt_train_bench: {}\n", e.what());
    return 1;
  }
  return 0;
}

}  // namespace
}  // namespace trireme::bench

int main(int argc, char** argv) {
  return trireme::bench::run(argc, argv);
}
