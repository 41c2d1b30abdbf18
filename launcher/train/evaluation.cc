#include "launcher/train/evaluation.h"

#include <algorithm>
#include <vector>

#include "launcher/families/model_family.h"
#include "launcher/train/noise_bands.h"
#include "launcher/train/top_k.h"
#include "runtime/base/error.h"
#include "runtime/data/prefetch.h"
#include "runtime/data/spread_samples.h"

namespace trireme {
namespace {

/// The micro-batches of a rank, in the order of the evaluation.
std::vector<BatchRequest> requests_of(const BatchLayout& batch, int data_rank) {
  std::vector<BatchRequest> requests;
  for (std::int64_t m = 0; m < batch.per_rank(); ++m) {
    const std::int64_t g = batch.global_micro_batch(data_rank, m);
    if (g >= batch.num_micro_batches()) continue;
    const std::int64_t first = batch.first_sample(g);
    requests.push_back({.first = first,
                        .count = std::min(batch.micro_batch, batch.global_batch - first),
                        .order = BatchRequest::Order::kSequential});
  }
  return requests;
}

}  // namespace

EvaluationOptions evaluation_of(const JobConfig& config, std::shared_ptr<const Dataset> data) {
  const TrainSection& train = config.train;
  EvaluationOptions evaluation{.num_samples = data->num_samples(),
                               .counts_top_k = counts_classes(config.model),
                               .by_noise_band = family_of(config.model).makes_pictures};
  if (train.eval_batches > 0) {
    evaluation.num_samples = std::min(evaluation.num_samples, train.eval_batches * train.global_batch);
  }
  // Packed rows are sorted by length.
  const bool in_order = family_of(config.model).data.in_order_of_classes || is_of_documents(config.data.kind);
  const bool spreads = in_order && evaluation.num_samples < data->num_samples();
  evaluation.dataset =
      spreads ? std::make_shared<const SpreadSamples>(data, evaluation.num_samples) : std::move(data);
  return evaluation;
}

void check_has_targets(const EvaluationOptions& evaluation) {
  const std::int64_t count = evaluation.num_samples;
  TRIREME_CHECK(count == 0 || evaluation.dataset->num_sequential_targets(0, count) > 0,
                "data.eval: none of the {} samples that an evaluation reads has a target: raise "
                "data.mask_probability or train.eval_batches, or take more samples",
                count);
}

EvalMetrics evaluate(Engine& engine, const EvaluationOptions& options) {
  const BatchLayout batch{.global_batch = options.num_samples,
                          .micro_batch = engine.batch().micro_batch,
                          .data_ranks = engine.batch().data_ranks};
  const auto requests = requests_of(batch, engine.groups().coord()[Axis::kData]);
  Prefetcher prefetcher(options.dataset, requests, {.depth = 2, .workers = options.workers});
  const BatchSource source = [&, next = std::size_t{0}](std::int64_t first, std::int64_t count) mutable {
    const bool expected =
        next < requests.size() && requests[next].first == first && requests[next].count == count;
    TRIREME_CHECK(expected, "the engine requested samples {} to {}, which this rank did not read ahead",
                  first, first + count - 1);
    ++next;
    return std::move(*prefetcher.next());
  };
  TopK mine;
  LogitsObserver observe;
  const std::int64_t sample_targets = options.dataset->targets_per_sample();
  const bool counts = engine.groups().coord()[Axis::kTensor] == 0;  // tensor ranks see the same logits
  if (options.counts_top_k) {
    observe = [&, seen = std::size_t{0}](const Tensor& logits, const Batch& batch) mutable {
      const std::int64_t first = requests.at(seen++).first;
      if (!counts) return;
      const HostLogits on_host(engine.context(), logits, batch.targets);
      const Shape& targets = batch.targets.shape();
      mine.add(on_host, targets.rank() > 1 ? targets.dim(-1) : 1);
      if (options.predictions != nullptr) options.predictions->add(on_host, first * sample_targets);
    };
  }
  NoiseBands bands(options.by_noise_band ? options.num_samples : 0);
  if (options.by_noise_band) {
    observe = [&, seen = std::size_t{0}](const Tensor& prediction, const Batch& batch) mutable {
      const std::int64_t first = requests.at(seen++).first;
      if (counts) bands.add(engine.context(), prediction, batch, first);
    };
  }
  if (options.detections != nullptr) {
    observe = [&, seen = std::size_t{0}](const Tensor& predictions, const Batch& batch) mutable {
      const std::int64_t first = requests.at(seen++).first;
      if (counts) options.detections->add(engine.context(), predictions, batch, first);
    };
  }
  const std::int64_t num_targets = options.dataset->num_sequential_targets(0, options.num_samples);
  EvalMetrics metrics{
      .loss = engine.evaluate(source, options.num_samples, num_targets, observe, options.weights),
      .of_averages = options.weights == Weights::kAverages};
  metrics.num_samples = options.num_samples;
  if (options.detections != nullptr) {
    options.detections->gather(engine.communicator());
    metrics.detection = options.detections->scores();
  }
  if (options.by_noise_band) {
    bands.gather(engine.communicator());
    metrics.noise_bands = bands.means();
    metrics.num_samples = bands.num_samples();
    metrics.loss *= static_cast<double>(num_targets) / static_cast<double>(bands.num_samples());
  }
  if (!options.counts_top_k) return metrics;
  const TopK all = TopK::sum(engine.communicator().all_gather_value(mine));
  TRIREME_CHECK(all.num_targets > 0, "none of the {} samples to evaluate could be read", options.num_samples);
  const auto total = static_cast<double>(all.num_targets);
  // The engine's mean counted targets that were left out.
  metrics.loss *= static_cast<double>(num_targets) / total;
  metrics.num_samples -= (num_targets - all.num_targets) / sample_targets;
  metrics.top1 = static_cast<double>(all.top1) / total;
  if (options.counts_answers) {
    metrics.exact_answers = static_cast<double>(all.exact_answers) / static_cast<double>(all.num_answers);
  }
  if (all.tells_top5()) metrics.top5 = static_cast<double>(all.top5) / total;
  return metrics;
}

}  // namespace trireme
