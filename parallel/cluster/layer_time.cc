#include "parallel/cluster/layer_time.h"

#include <cmath>

#include "runtime/base/error.h"

namespace trireme {
namespace {

// Bytes of an element of activations. Memory traffic of one logit, forward and backward (fp32 copies,
// maximum, exponentials, sum, gradient), and of one element of the embedding's output.
constexpr double kActivationBytes = 2;
constexpr double kLogitTraffic = 30;
constexpr double kEmbeddingTraffic = 20;
constexpr double kEndKernels = 10;      // launched by the host for the embedding, and for the head
constexpr double kFlashBackward = 2.5;  // flash attention's backward over its forward (Dao 2023)

double peak_flops(const ClusterDevice& device, const std::string& dtype) {
  const auto found = device.peak_tflops.find(dtype);
  if (found != device.peak_tflops.end()) return found->second * 1e12;
  std::string known;
  for (const auto& [name, tflops] : device.peak_tflops) known += (known.empty() ? "" : ", ") + name;
  throw ClusterError(ErrorCode::kInvalidInput, "precision {}: devices.{}.peak_tflops has {} only", dtype,
                     device.name, known);
}

}  // namespace

double overlapped_s(double a, double b) {
  return std::sqrt(std::sqrt(a * a * a * a + b * b * b * b));
}

LayerTimes::LayerTimes(const Cluster& cluster, const TrainingRun& run)
    : cluster_(cluster),
      device_(cluster.device(run.device)),
      run_(run),
      network_(cluster, device_),
      tokens_(static_cast<double>(run.micro_batch) * run.seq_len) {
  const bool is_fp8 = run.precision == "fp8";
  const std::string dtype = is_fp8 || run.precision == "bf16-pure" ? "bf16" : run.precision;
  peak_ = peak_flops(device_, dtype);
  linear_rate_ = is_fp8 ? cluster.framework.fp8_efficiency * peak_flops(device_, "fp8") / peak_ : 1.0;
}

double LayerTimes::product_s(Product product) const {
  const double half = cluster_.framework.half_dim;
  const auto filled = [half](double dim) { return dim / (dim + half); };
  const double rate =
      peak_ * device_.matmul_efficiency * filled(product.m) * filled(product.n) * filled(product.k);
  return 2 * product.m * product.n * product.k / rate + cluster_.framework.ramp_gflop * 1e9 / peak_;
}

double LayerTimes::memory_s(double bytes) const {
  return bytes / (device_.memory_gb_s * 1e9 * cluster_.framework.memory_efficiency);
}

double LayerTimes::linear_s() const {
  const double c = run_.hidden, t = run_.tensor;
  return (product_s({tokens_, 3 * c / t, c}) + product_s({tokens_, c, c / t}) +
          product_s({tokens_, 4 * c / t, c}) + product_s({tokens_, c, 4 * c / t})) /
         linear_rate_;
}

// Unfused kernels compute all T^2 scores, flash attention only the causal half.
double LayerTimes::attention_s() const {
  const bool is_flash = cluster_.framework.attention == AttentionKernel::kFlash;
  const double flops = (is_flash ? 2.0 : 4.0) * tokens_ * run_.seq_len * run_.hidden / run_.tensor;
  return flops / (peak_ * device_.attention_efficiency);
}

double LayerTimes::passes_s() const {
  const ClusterFramework& framework = cluster_.framework;
  const double whole = framework.elementwise_passes * tokens_ * run_.hidden;
  const double inner = framework.activation_passes * tokens_ * 4 * run_.hidden / run_.tensor;
  const double scores = framework.attention == AttentionKernel::kFlash
                            ? 0
                            : framework.softmax_passes * tokens_ * run_.seq_len * run_.heads / run_.tensor;
  return memory_s(kActivationBytes * (whole + inner + scores));
}

double LayerTimes::tensor_sum_s() const {
  return network_.all_reduce_s(kActivationBytes * tokens_ * run_.hidden, {.size = run_.tensor, .stride = 1});
}

double LayerTimes::host_s() const {
  const double exchanges = 2 * cluster_.host.collective_us * std::log2(run_.tensor);
  return 1e-6 * (cluster_.framework.kernels_per_layer * cluster_.host.launch_us + exchanges);
}

// The gradient of a micro-batch is written and added to the sum.
double LayerTimes::accumulate_s(double elems) const {
  return memory_s(elems * (kActivationBytes + 2 * cluster_.framework.gradient_bytes));
}

double LayerTimes::layer_forward_s() const {
  return overlapped_s(linear_s() + attention_s() + passes_s() + 2 * tensor_sum_s(), host_s());
}

double LayerTimes::layer_backward_s() const {
  const bool is_flash = cluster_.framework.attention == AttentionKernel::kFlash;
  const double device_s = 2 * (linear_s() + passes_s()) + (is_flash ? kFlashBackward : 2.0) * attention_s() +
                          2 * tensor_sum_s() + accumulate_s(layer_elems());
  return overlapped_s(device_s, host_s() * cluster_.host.backward_factor);
}

double LayerTimes::head_s() const {
  const double columns = static_cast<double>(run_.vocab) / run_.tensor;
  return 3 * product_s({tokens_, columns, static_cast<double>(run_.hidden)}) +
         memory_s(kLogitTraffic * tokens_ * columns) + accumulate_s(embedding_elems()) +
         kEndKernels * cluster_.host.launch_us * 1e-6 + 3 * tensor_sum_s();
}

double LayerTimes::embedding_s() const {
  return memory_s(kEmbeddingTraffic * tokens_ * run_.hidden) + kEndKernels * cluster_.host.launch_us * 1e-6;
}

double LayerTimes::layer_elems() const {
  return 12.0 * run_.hidden * run_.hidden / run_.tensor;
}

double LayerTimes::embedding_elems() const {
  return static_cast<double>(run_.vocab) * run_.hidden / run_.tensor;
}

}  // namespace trireme
