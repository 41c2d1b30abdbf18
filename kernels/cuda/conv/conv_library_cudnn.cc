// Convolutions by cuDNN's engines on channels-last images and packed weights ([Note: packed weights]).
//
// [Note: engines of convolutions] Engines must keep the contract: the same bits on every run, sums in fp32,
// no tensor cores on fp32 unless tf32 is requested. Engines that transform their operands (Winograd, FFT) are
// excluded too, because their error grows with their tiles. [Note: engines of cuDNN] describes the choice
// among the rest. A native kernel adds a bias or another gradient to fp32 sums, so that 16-bit results are
// rounded once.
//
// [Note: results of another type] The result is fp32 for weight gradients of 16-bit images, and wherever
// something is added to it. Engines made for one type refuse that. Engines that are generated for a graph
// keep the sum in fp32 and store it through an operation behind the convolution. So the graph with that
// operation is tried first, then the convolution alone, then products of gathered windows (gathered_conv.h),
// then the native kernel. [Note: padded channels] in channel_padding.h applies before all of these.
//
// [Note: defects of cuDNN's convolutions] Some proposed engines compute wrong results. cuDNN publishes no
// list of them. The list here is what cards have shown. The affected problems are never given to cuDNN, in
// any type or version, and use the same fallbacks as problems without an engine:
// - Weight gradients of 1 x 1 kernels on images with padding. 9.19.0 on an H100 made errors of 100 to
//   300 % in 16-bit ones, for images [1, 5, 5, 4] with 4 outputs and a padding of 1.
#include <initializer_list>
#include <optional>

#include "kernels/cuda/conv/channel_padding.h"
#include "kernels/cuda/conv/conv_library.h"
#include "kernels/cuda/conv/conv_weight.h"
#include "kernels/cuda/cudnn/cudnn_plans.h"
#include "kernels/cuda/device/workspace.h"
#include "kernels/cuda/matmul/matmul_epilogue.h"
#include "kernels/product_workspace.h"

namespace trireme::cuda {
namespace {

constexpr std::size_t kMostWorkspaceBytes = std::size_t{1} << 30;

struct Problem {
  ConvolutionKind kind = ConvolutionKind::kFwd;
  ConvShape shape;
  int channels = 0;  // of the caller's images; `shape` has more if they are padded
  DType in = DType::kFloat32, out = DType::kFloat32;
  MathMode math = MathMode::kFp32;
  auto operator<=>(const Problem&) const = default;

  int forms() const { return in == out ? 1 : 2; }
  CudnnGraph graph(int form) const;
  EngineLimits limits(int form) const;
  bool is_padded() const { return shape.channels != channels; }
  const char* successor() const {
    if (is_padded()) return "the images are tried as they are";
    const bool is_gathered =
        kind == ConvolutionKind::kBwdWeight && in != DType::kFloat32 && shape.groups == 1;
    return is_gathered ? "products of gathered windows run" : "the slower native kernel runs";
  }
  std::string text() const {
    constexpr const char* kKinds[] = {"forward", "data gradient", "weight gradient"};
    return fmt::format("convolution, {} {} of {}{}", name(in), kKinds[static_cast<std::size_t>(kind)],
                       shape.text(), is_padded() ? fmt::format(", padded from {} channels", channels) : "");
  }
};

// Ids of the caller's tensors.
enum Id : std::int64_t { kX = 1, kWeight, kY };

cudnnDataType_t cudnn_type(DType dtype) {
  if (dtype == DType::kFloat32) return CUDNN_DATA_FLOAT;
  return dtype == DType::kFloat16 ? CUDNN_DATA_HALF : CUDNN_DATA_BFLOAT16;
}

// The reason why a problem must not be given to the library, or null. See
// [Note: defects of cuDNN's convolutions].
const char* defect_of(const Problem& p) {
  const bool has_padded_pixels = p.shape.kernel_height == 1 && p.shape.kernel_width == 1 &&
                                 (p.shape.padding > 0 || p.shape.padding_after > 0);
  if (p.kind == ConvolutionKind::kBwdWeight && has_padded_pixels) {
    return "an engine computes weight gradients of one pixel with padding wrongly";
  }
  return nullptr;
}

// See [Note: results of another type].
CudnnGraph Problem::graph(int form) const {
  if (const char* defect = defect_of(*this)) throw Error(ErrorCode::kUnsupported, defect);
  const ConvShape& s = shape;
  // Dims are in the order [images, channels, height, width], independent of the memory layout.
  const auto channels_last = [](const CudnnGraph::Extents& d) {
    return CudnnGraph::Extents{d[1] * d[2] * d[3], 1, d[3] * d[1], d[1]};
  };
  const CudnnGraph::Extents x{s.images, s.channels, s.height, s.width},
      weight{s.outputs, s.in_group, s.kernel_height, s.kernel_width},
      y{s.images, s.outputs, s.out_height, s.out_width};
  CudnnGraph made;
  const bool casts = in != out && form == 0;
  const auto tensor_of = [&](Id id, ConvolutionKind written, const CudnnGraph::Extents& dims) {
    const bool is_result = kind == written;
    if (is_result && casts) return made.intermediate(dims, channels_last(dims));
    return made.input_or_output(id, cudnn_type(is_result ? out : in), dims, channels_last(dims));
  };
  const auto x_tensor = tensor_of(kX, ConvolutionKind::kBwdData, x),
             weight_tensor = tensor_of(kWeight, ConvolutionKind::kBwdWeight, weight),
             y_tensor = tensor_of(kY, ConvolutionKind::kFwd, y);
  made.convolution(kind, {.stride = s.stride, .padding = s.padding, .padding_after = s.padding_after},
                   x_tensor, weight_tensor, y_tensor);
  if (casts) {
    const bool writes_x = kind == ConvolutionKind::kBwdData, writes_y = kind == ConvolutionKind::kFwd;
    const auto& sum = writes_x ? x_tensor : writes_y ? y_tensor : weight_tensor;
    made.pointwise(CUDNN_POINTWISE_IDENTITY, sum, {},
                   made.input_or_output(writes_x   ? kX
                                        : writes_y ? kY
                                                   : kWeight,
                                        cudnn_type(out), sum.dims, channels_last(sum.dims)));
  }
  return made;
}

// See [Note: engines of convolutions].
EngineLimits Problem::limits(int) const {
  EngineLimits made{
      .refused = {CUDNN_NUMERICAL_NOTE_NONDETERMINISTIC, CUDNN_NUMERICAL_NOTE_REDUCED_PRECISION_REDUCTION,
                  CUDNN_NUMERICAL_NOTE_WINOGRAD, CUDNN_NUMERICAL_NOTE_FFT},
      .most_workspace_bytes = kMostWorkspaceBytes,
      .fallback = true};
  if (in == DType::kFloat32) made.refused.push_back(CUDNN_NUMERICAL_NOTE_DOWN_CONVERT_INPUTS);
  if (in == DType::kFloat32 && math == MathMode::kFp32) {
    made.refused.push_back(CUDNN_NUMERICAL_NOTE_TENSOR_CORE);
  }
  return made;
}

// True if all pointers are aligned for engines that read 16 bytes at a time.
bool is_readable(std::initializer_list<const void*> pointers) {
  for (const void* pointer : pointers) {
    if (reinterpret_cast<std::uintptr_t>(pointer) % 16 != 0) return false;
  }
  return true;
}

std::size_t bytes_of(std::int64_t elems, DType dtype) {
  return static_cast<std::size_t>(elems * size_bytes(dtype));
}

// Computes `result` from the fp32 pixel rows in `sum` and the values to add.
void finish(const KernelContext& exec, void* sum, ConstTensorView bias, ConstTensorView addend,
            TensorView result) {
  const std::int64_t cols = result.shape[3];
  const Shape rows{result.num_elems() / cols, cols};
  addend.shape = rows;
  result.shape = rows;
  matmul_epilogue(exec,
                  {.product = {sum, DType::kFloat32, rows}, .bias = bias, .residual = addend, .d = result});
}

// Calls run(shape) with padded channels if the call should use them, and with the plain shape if that returns
// false. See [Note: padded channels].
template <class Run>
bool run_padded_or_plain(const ConvShape& plain, std::int64_t channels, const Run& run) {
  if (channels != plain.channels) {
    ConvShape padded = plain;
    padded.channels = padded.in_group = static_cast<int>(channels);
    if (run(padded)) return true;
  }
  return run(plain);
}

Shape images_of(const ConvShape& s) {
  return {s.images, s.height, s.width, s.channels};
}

// The images of a problem: the caller's own, or a padded copy.
class PaddedImages {
 public:
  PaddedImages(const KernelContext& exec, const char* op, ConstTensorView images, const ConvShape& shape)
      : data_(images.data) {
    if (shape.channels == images.shape[3]) return;
    copy_.emplace(exec, bytes_of(images_of(shape).num_elems(), images.dtype));
    data_ = copy_->as<void>();
    pad_channels(exec, op, images, shape.channels, copy_->as<void>());
  }
  const void* data() const { return data_; }

 private:
  std::optional<Workspace> copy_;
  const void* data_;
};

}  // namespace

struct ConvLibrary::State {
  CudnnPlans<Problem> plans;

  bool run(const KernelContext& exec, const Problem& problem, const void* x, const void* weight,
           const void* y) {
    return plans.run(problem, [&](const CudnnPlan& plan) {
      const Workspace workspace(exec, plan.workspace_bytes());
      return plan.run(plans.handle(), {kX, kWeight, kY},
                      {const_cast<void*>(x), const_cast<void*>(weight), const_cast<void*>(y)},
                      workspace.as<void>());
    });
  }

  // These run `shape`, whose channels may be padded.
  bool run_fwd(const KernelContext& exec, const Conv2dFwdArgs& args, const ConvShape& shape);
  bool run_bwd_data(const KernelContext& exec, const Conv2dBwdDataArgs& args, const ConvShape& shape);
  bool run_bwd_weight(const KernelContext& exec, const Conv2dBwdWeightArgs& args, const ConvShape& shape);
};

bool ConvLibrary::State::run_fwd(const KernelContext& exec, const Conv2dFwdArgs& args,
                                 const ConvShape& shape) {
  constexpr const char* kOp = "conv2d_fwd";
  const bool in_two = args.bias.defined();
  const Problem problem{.kind = ConvolutionKind::kFwd,
                        .shape = shape,
                        .channels = static_cast<int>(args.x.shape[3]),
                        .in = args.x.dtype,
                        .out = in_two ? DType::kFloat32 : args.y.dtype,
                        .math = args.math};
  if (!is_readable({problem.is_padded() ? nullptr : args.x.data, args.y.data})) return false;
  if (plans.plan_for(problem) == nullptr) return false;
  const Workspace weight(exec, bytes_of(shape.weight_elems(), args.weight.dtype));
  pack_conv_weight(exec, kOp, shape, args.weight, packed_pitch(shape), weight.as<void>());
  const PaddedImages x(exec, kOp, args.x, shape);
  std::optional<Workspace> apart;
  if (args.y.dtype != problem.out) apart.emplace(exec, bytes_of(args.y.num_elems(), problem.out));
  void* const sum = apart ? apart->as<void>() : args.y.data;
  if (!run(exec, problem, x.data(), weight.as<void>(), sum)) return false;
  if (in_two) finish(exec, sum, args.bias, {}, args.y);
  return true;
}

bool ConvLibrary::State::run_bwd_data(const KernelContext& exec, const Conv2dBwdDataArgs& args,
                                      const ConvShape& shape) {
  constexpr const char* kOp = "conv2d_bwd_data";
  const bool in_two = args.dx_add.defined();
  const Problem problem{.kind = ConvolutionKind::kBwdData,
                        .shape = shape,
                        .channels = static_cast<int>(args.dx.shape[3]),
                        .in = args.dy.dtype,
                        .out = in_two ? DType::kFloat32 : args.dx.dtype,
                        .math = args.math};
  if (!is_readable({args.dy.data, problem.is_padded() ? nullptr : args.dx.data})) return false;
  if (plans.plan_for(problem) == nullptr) return false;
  const Workspace weight(exec, bytes_of(shape.weight_elems(), args.weight.dtype));
  pack_conv_weight(exec, kOp, shape, args.weight, packed_pitch(shape), weight.as<void>());
  std::optional<Workspace> apart;
  if (problem.is_padded() || args.dx.dtype != problem.out || args.dx_add.data == args.dx.data) {
    apart.emplace(exec, bytes_of(images_of(shape).num_elems(), problem.out));
  }
  void* const sum = apart ? apart->as<void>() : args.dx.data;
  if (!run(exec, problem, sum, weight.as<void>(), args.dy.data)) return false;
  if (problem.is_padded()) {
    unpad_channels(exec, kOp, {sum, problem.out, images_of(shape)}, args.dx_add, args.dx);
  } else if (in_two) {
    finish(exec, sum, {}, args.dx_add, args.dx);
  }
  return true;
}

bool ConvLibrary::State::run_bwd_weight(const KernelContext& exec, const Conv2dBwdWeightArgs& args,
                                        const ConvShape& shape) {
  constexpr const char* kOp = "conv2d_bwd_weight";
  const Problem problem{.kind = ConvolutionKind::kBwdWeight,
                        .shape = shape,
                        .channels = static_cast<int>(args.x.shape[3]),
                        .in = args.dy.dtype,
                        .out = DType::kFloat32,
                        .math = args.math};
  if (!is_readable({args.dy.data, problem.is_padded() ? nullptr : args.x.data})) return false;
  if (plans.plan_for(problem) == nullptr) return false;
  const Workspace packed(exec, bytes_of(shape.weight_elems(), DType::kFloat32));
  const PaddedImages x(exec, kOp, args.x, shape);
  if (!run(exec, problem, x.data(), packed.as<void>(), args.dy.data)) return false;
  unpack_conv_gradient(exec, kOp, shape, packed.as<float>(), packed_pitch(shape), args.dweight, args.mode);
  return true;
}

ConvLibrary::ConvLibrary(std::shared_ptr<CudnnHandle> cudnn)
    : state_(new State{.plans = CudnnPlans<Problem>(std::move(cudnn))}) {}

ConvLibrary::~ConvLibrary() = default;

bool ConvLibrary::run_fwd(const KernelContext& exec, const Conv2dFwdArgs& args) {
  return run_padded_or_plain(conv_shape(args.x.shape, args.weight.shape, args.y.shape, args.geometry),
                             library_channels(args.weight.shape, args.geometry, args.x.dtype),
                             [&](const ConvShape& shape) { return state_->run_fwd(exec, args, shape); });
}

bool ConvLibrary::run_bwd_data(const KernelContext& exec, const Conv2dBwdDataArgs& args) {
  return run_padded_or_plain(conv_shape(args.dx.shape, args.weight.shape, args.dy.shape, args.geometry),
                             library_channels(args.weight.shape, args.geometry, args.dx.dtype),
                             [&](const ConvShape& shape) { return state_->run_bwd_data(exec, args, shape); });
}

bool ConvLibrary::run_bwd_weight(const KernelContext& exec, const Conv2dBwdWeightArgs& args) {
  if (args.dy.num_elems() == 0) return false;
  return run_padded_or_plain(
      conv_shape(args.x.shape, args.dweight.shape, args.dy.shape, args.geometry),
      library_channels(args.dweight.shape, args.geometry, args.x.dtype),
      [&](const ConvShape& shape) { return state_->run_bwd_weight(exec, args, shape); });
}

}  // namespace trireme::cuda
