#include "parallel/cluster/step_time.h"

#include <algorithm>
#include <cmath>

#include "parallel/cluster/exchange_time.h"
#include "parallel/cluster/layer_time.h"

namespace trireme {
namespace {

constexpr double kBytes = 2;  // per element of activations and working copies

bool shards_gradients(const TrainingRun& run) {
  return run.zero.value_or(0) >= 2 && run.data > 1;
}

RankGroup data_group(const TrainingRun& run) {
  return {.size = run.data, .stride = run.tensor};
}

/// One micro-batch in a layer: forward, backward, recompute, gathers and scatters.
double layer_s(const Cluster& cluster, const TrainingRun& run, const LayerTimes& times,
               const ClusterNetwork& network) {
  const bool reruns = run.recompute.value_or(cluster.framework.recompute);
  const double forward = times.layer_forward_s();
  const double backward = times.layer_backward_s() + (reruns ? forward : 0);
  if (!shards_gradients(run)) return forward + backward;
  const double gather = *run.zero >= 3 ? network.gather_s(kBytes * times.layer_elems(), data_group(run)) : 0;
  const double scatter =
      network.gather_s(cluster.framework.gradient_bytes * times.layer_elems(), data_group(run));
  return overlapped_s(forward, gather) + overlapped_s(backward, gather + scatter);
}

double head_exchange_s(const TrainingRun& run, const LayerTimes& times, const ClusterNetwork& network) {
  return shards_gradients(run) ? 3 * network.gather_s(kBytes * times.embedding_elems(), data_group(run)) : 0;
}

double messages_s(const Cluster& cluster, const TrainingRun& run, const ClusterNetwork& network) {
  if (run.pipeline == 1) return 0;
  double bytes = kBytes * run.micro_batch * run.seq_len * run.hidden;
  if (cluster.framework.scattered_messages) bytes /= run.tensor;
  const double message = network.message_s(bytes, run.tensor * run.data) + cluster.host.message_us * 1e-6;
  return 2 * message * run.chunks;
}

void add_step_end(const Cluster& cluster, const TrainingRun& run, const LayerTimes& times,
                  const ClusterNetwork& network, StepTime& time) {
  const double stage_layers = std::ceil(static_cast<double>(run.layers) / run.pipeline);
  const double elems = stage_layers * times.layer_elems() + times.embedding_elems();
  if (!shards_gradients(run)) {
    time.exchange_s = cluster.framework.exposed_exchange *
                      network.all_reduce_s(cluster.framework.gradient_bytes * elems, data_group(run));
  }
  const double updated = run.zero.value_or(0) >= 1 ? elems / run.data : elems;
  time.update_s = times.memory_s(updated * cluster.framework.optimizer_bytes);
  time.host_s = cluster.host.step_ms * 1e-3;
}

}  // namespace

StepTime predict_step(const Cluster& cluster, const TrainingRun& run) {
  const LayerTimes times(cluster, run);
  const ClusterNetwork network(cluster, cluster.device(run.device));
  const double micro_batches =
      std::max(1.0, run.global_batch / (static_cast<double>(run.micro_batch) * run.data));
  const double stage_layers = std::ceil(static_cast<double>(run.layers) / run.pipeline);
  const double stage = stage_layers * layer_s(cluster, run, times, network) +
                       cluster.host.micro_batch_ms * 1e-3 + messages_s(cluster, run, network);
  const double head = times.head_s() + head_exchange_s(run, times, network);
  StepTime time;
  if (run.pipeline == 1) {
    time.micro_batches_s = micro_batches * (stage + head + times.embedding_s());
  } else {
    time.micro_batches_s = micro_batches * (stage + head);
    time.bubble_s = (run.pipeline - 1.0) / run.chunks * stage + times.embedding_s();
  }
  add_step_end(cluster, run, times, network, time);
  return time;
}

}  // namespace trireme
