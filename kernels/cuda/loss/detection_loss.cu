// Assignment of anchors to objects and the loss of a detector: one block for each picture. A warp finds the
// best anchors of an object.
#include <cassert>

#include "kernels/cuda/device/workspace.h"
#include "kernels/cuda/launch.cuh"
#include "kernels/cuda/ops.h"
#include "kernels/cuda/pack.cuh"
#include "kernels/cuda/reduce.cuh"
#include "kernels/detection_numerics.h"

namespace trireme::cuda {
namespace {

constexpr int kNoObject = -1, kSeveralObjects = -2;
constexpr int kNumbers = 5;  // of a row of targets; and of a prediction, before its classes

struct DetectionExtents {
  std::int64_t anchors, numbers, rows;  // numbers of a prediction, rows of targets
  AnchorGrid grid;
};

/// The tensors of one picture; the gradient's scale belongs to all pictures.
template <class T>
struct DetectionPointers {
  T* predictions;
  const float* targets;
  const float *l1_weight, *gradient_scale;  // may be null
  int* objects;
  float* parts;
  double* background;  // scratch [A]: the sum of ClassCost::absent; NaN if the anchor is no candidate
};

__device__ bool is_object(const DetectionExtents& e, const float* object) {
  return object[0] >= 0 && object[0] < static_cast<float>(e.numbers - kNumbers);
}

template <class T>
__device__ void read_box(const T* prediction, float numbers[kNumbers]) {
  for (int i = 0; i < kNumbers; ++i) numbers[i] = to_float(prediction[i]);
}

template <class T>
__device__ double background_of(const DetectionExtents& e, const DetectionPointers<T>& p, std::int64_t a) {
  const detection::Anchor anchor = detection::anchor_at(e.grid, a);
  bool is_candidate = false;
  for (std::int64_t g = 0; g < e.rows && !is_candidate; ++g) {
    const float* object = p.targets + g * kNumbers;
    if (!is_object(e, object)) continue;
    const detection::Position at = detection::position(anchor, detection::object_box(object));
    is_candidate = at.in_box || at.near_center;
  }
  const double no_candidate = nan("");
  if (!is_candidate) return no_candidate;
  double sum = 0;
  const T* row = p.predictions + a * e.numbers;
  const float logit = to_float(row[4]);
  for (std::int64_t i = 0; i < e.numbers; ++i) {
    const float number = to_float(row[i]);
    if (isnan(number)) return no_candidate;
    if (i >= kNumbers) sum += detection::class_cost(logit, number).absent;
  }
  return sum;
}

template <class T>
__device__ detection::Candidate candidate(const DetectionExtents& e, const DetectionPointers<T>& p,
                                          std::int64_t a, const float* object) {
  const T* row = p.predictions + a * e.numbers;
  float numbers[kNumbers];
  read_box(row, numbers);
  const float own = to_float(row[kNumbers + static_cast<std::int64_t>(object[0])]);
  const detection::Anchor anchor = detection::anchor_at(e.grid, a);
  return detection::candidate(anchor, detection::predicted_box(anchor, numbers),
                              detection::object_box(object), p.background[a],
                              detection::class_cost(numbers[4], own));
}

/// Joins the lists of a warp's lanes: all lanes return the list of the warp.
__device__ detection::BestAnchors best_of_warp(detection::BestAnchors mine) {
  constexpr unsigned kAll = 0xffffffffu;
  for (int distance = kWarp / 2; distance > 0; distance /= 2) {
    detection::BestAnchors theirs;
    theirs.count = __shfl_xor_sync(kAll, mine.count, distance);
    for (int i = 0; i < detection::kMostOverlaps; ++i) {
      theirs.overlaps[i] = __shfl_xor_sync(kAll, mine.overlaps[i], distance);
      theirs.costs[i] = __shfl_xor_sync(kAll, mine.costs[i], distance);
      theirs.anchors[i] = __shfl_xor_sync(kAll, mine.anchors[i], distance);
    }
    // Overlaps and costs are sorted independently; add() keeps both orders.
    for (int i = 0; i < theirs.count; ++i) {
      mine.add({theirs.costs[i], theirs.overlaps[i]}, theirs.anchors[i]);
    }
  }
  return mine;
}

template <class T>
__device__ void take_best(const DetectionExtents& e, const DetectionPointers<T>& p, int g) {
  const float* object = p.targets + std::int64_t{g} * kNumbers;
  detection::BestAnchors best = {};
  const int lane = threadIdx.x % kWarp;
  for (std::int64_t a = lane; a < e.anchors; a += kWarp) {
    if (!isnan(p.background[a])) best.add(candidate(e, p, a, object), static_cast<std::int32_t>(a));
  }
  best = best_of_warp(best);
  if (lane >= best.num_taken()) return;
  int* taken = p.objects + best.anchors[lane];
  if (atomicCAS(taken, kNoObject, g) != kNoObject) *taken = kSeveralObjects;
}

template <class T>
__device__ int best_object(const DetectionExtents& e, const DetectionPointers<T>& p, std::int64_t a) {
  int best = kNoObject;
  double lowest = 0;
  for (std::int64_t g = 0; g < e.rows; ++g) {
    const float* object = p.targets + g * kNumbers;
    if (!is_object(e, object)) continue;
    const double cost = candidate(e, p, a, object).cost;
    if (best == kNoObject || cost < lowest) {
      best = static_cast<int>(g);
      lowest = cost;
    }
  }
  return best;
}

/// The loss of an anchor, and its gradient in place.
template <class T, bool kGradient>
__device__ void add_loss(const DetectionExtents& e, const DetectionPointers<T>& p, std::int64_t a,
                         double scale, double parts[kNumDetectionParts]) {
  T* row = p.predictions + a * e.numbers;
  const int g = p.objects[a];
  const bool is_foreground = g >= 0;
  const float* object = p.targets + (is_foreground ? g : 0) * std::int64_t{kNumbers};
  bool has_nan = false;
  float numbers[kNumbers];
  read_box(row, numbers);
  for (std::int64_t i = 0; i < e.numbers; ++i) has_nan = has_nan || isnan(to_float(row[i]));
  const double logit = has_nan ? nan("") : static_cast<double>(numbers[4]);
  detection::BoxLoss box{};
  if (is_foreground) {
    const double l1_weight = p.l1_weight != nullptr ? *p.l1_weight : 0.0f;
    box = detection::box_loss(detection::anchor_at(e.grid, a), numbers, detection::object_box(object),
                              l1_weight);
    parts[0] += box.box;
    parts[3] += box.l1;
    parts[4] += 1;
  }
  parts[1] += detection::softplus(is_foreground ? -logit : logit);
  for (std::int64_t i = kNumbers; i < e.numbers; ++i) {
    double slope = 0;
    if (is_foreground) {
      const double x = to_float(row[i]);
      const double target = i - kNumbers == static_cast<std::int64_t>(object[0]) ? box.overlap : 0.0;
      parts[2] += detection::softplus(x) - target * x;
      slope = detection::sigmoid(x) - target;
    }
    if constexpr (kGradient) {
      row[i] = from_float<T>(static_cast<float>(slope * scale));
    }
  }
  if constexpr (kGradient) {
    for (int i = 0; i < 4; ++i)
      numbers[i] = static_cast<float>((box.box_gradient[i] + box.l1_gradient[i]) * scale);
    numbers[4] = static_cast<float>((detection::sigmoid(logit) - (is_foreground ? 1.0 : 0.0)) * scale);
    for (int i = 0; i < kNumbers; ++i) row[i] = from_float<T>(numbers[i]);
  }
}

template <class T, bool kGradient>
__global__ void __launch_bounds__(kThreads)
    detection_loss_kernel(DetectionExtents e, DetectionPointers<T> p, float inv_num_targets) {
  __shared__ double shared[kThreads / kWarp];
  const std::int64_t b = blockIdx.x;
  p.predictions += b * e.anchors * e.numbers;
  p.targets += b * e.rows * kNumbers;
  if (p.l1_weight != nullptr) p.l1_weight += b;
  p.objects += b * e.anchors;
  p.parts += b * kNumDetectionParts;
  p.background += b * e.anchors;
  for (std::int64_t a = threadIdx.x; a < e.anchors; a += kThreads) {
    p.objects[a] = kNoObject;
    p.background[a] = background_of(e, p, a);
  }
  __syncthreads();
  for (std::int64_t g = threadIdx.x / kWarp; g < e.rows; g += kThreads / kWarp) {  // the same for a warp
    if (is_object(e, p.targets + g * kNumbers)) take_best(e, p, static_cast<int>(g));
  }
  __syncthreads();
  for (std::int64_t a = threadIdx.x; a < e.anchors; a += kThreads) {
    if (p.objects[a] == kSeveralObjects) p.objects[a] = best_object(e, p, a);
  }
  // An anchor's thread is the same in all loops over anchors.
  double scale = inv_num_targets;
  if (p.gradient_scale != nullptr) scale *= *p.gradient_scale;
  double parts[kNumDetectionParts] = {};
  for (std::int64_t a = threadIdx.x; a < e.anchors; a += kThreads) {
    add_loss<T, kGradient>(e, p, a, scale, parts);
  }
  for (int i = 0; i < kNumDetectionParts; ++i) {
    const double sum = block_sum<kThreads>(parts[i], shared);
    if (threadIdx.x == 0) p.parts[i] = static_cast<float>(sum);
    __syncthreads();
  }
}

// One warp, of which one thread works.
__global__ void sum_parts_kernel(std::int64_t pictures, const float* parts, float inv_num_targets,
                                 float* loss, float* count) {
  if (threadIdx.x != 0) return;
  double total = 0, foreground = 0;
  for (std::int64_t b = 0; b < pictures; ++b, parts += kNumDetectionParts) {
    for (int i = 0; i < 4; ++i) total += parts[i];
    foreground += parts[4];
  }
  *loss = static_cast<float>(total * inv_num_targets);
  *count = static_cast<float>(foreground);
}

}  // namespace

void run_op(const KernelContext& exec, const DetectionLossArgs& args) {
  constexpr const char* kOp = "detection_loss";
  check_dtype(kOp, DType::kFloat32,
              {args.targets, args.l1_weights, args.parts, args.loss, args.count, args.gradient_scale});
  const Shape& shape = args.predictions.shape;
  const std::int64_t pictures = shape[0];
  const DetectionExtents e{.anchors = shape[1],
                           .numbers = shape[2],
                           .rows = args.targets.num_elems() / (pictures * kNumbers),
                           .grid = args.grid};
  assert(args.objects.num_elems() == pictures * e.anchors);
  const Workspace background(exec, static_cast<std::size_t>(pictures * e.anchors) * sizeof(double));
  for_float_type(kOp, args.predictions.dtype, [&]<class T>(T) {
    const DetectionPointers<T> p{.predictions = args.predictions.as<T>(),
                                 .targets = args.targets.as<float>(),
                                 .l1_weight = args.l1_weights.as<float>(),
                                 .gradient_scale = args.gradient_scale.as<float>(),
                                 .objects = args.objects.as<std::int32_t>(),
                                 .parts = args.parts.as<float>(),
                                 .background = background.as<double>()};
    launch(exec, kOp, grid_of(pictures), kThreads, 0,
           args.write_gradient ? detection_loss_kernel<T, true> : detection_loss_kernel<T, false>, e, p,
           args.inv_num_targets);
  });
  launch(exec, kOp, 1, kWarp, 0, sum_parts_kernel, pictures, args.parts.as<float>(), args.inv_num_targets,
         args.loss.as<float>(), args.count.as<float>());
}

}  // namespace trireme::cuda
