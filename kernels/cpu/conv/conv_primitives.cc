#include "kernels/cpu/conv/conv_primitives.h"

#include <omp.h>

#include <optional>

#include "runtime/base/error.h"

namespace trireme::cpu {
namespace {

using dnnl::memory;
using Tag = memory::format_tag;

constexpr auto kFloat = memory::data_type::f32;

// Copies of fewer weights run on one thread.
constexpr std::int64_t kSerialCopy = 1 << 16;

/// Sets one thread while a primitive is created, which is when oneDNN reads the number of threads.
class OneThread {
 public:
  OneThread() : before_(omp_get_max_threads()) { omp_set_num_threads(1); }
  ~OneThread() { omp_set_num_threads(before_); }
  OneThread(const OneThread&) = delete;
  OneThread& operator=(const OneThread&) = delete;

 private:
  const int before_;
};

memory::dims weight_dims(const ConvShape& s) {
  memory::dims dims{s.out_group, s.in_group, s.kernel_height, s.kernel_width};
  if (s.groups > 1) dims.insert(dims.begin(), s.groups);
  return dims;
}

memory::desc plain_weight(const ConvShape& s) {
  return {weight_dims(s), kFloat, s.groups > 1 ? Tag::goihw : Tag::oihw};
}

struct Descs {
  explicit Descs(const ConvShape& s)
      : x({s.images, s.channels, s.height, s.width}, kFloat, Tag::nhwc),
        y({s.images, s.outputs, s.out_height, s.out_width}, kFloat, Tag::nhwc),
        weight(weight_dims(s), kFloat, Tag::any),
        strides{s.stride, s.stride},
        padding{s.padding, s.padding},
        // Reduces the padding at the end by the pixels that the last window does not reach.
        padding_after{(s.out_height - 1) * s.stride + s.kernel_height - s.height - s.padding,
                      (s.out_width - 1) * s.stride + s.kernel_width - s.width - s.padding} {
    if (s.has_bias) bias = memory::desc({s.outputs}, kFloat, Tag::x);
  }
  memory::desc x, y, weight, bias;
  memory::dims strides, padding, padding_after;
};

constexpr auto kDirect = dnnl::algorithm::convolution_direct;

ConvPrimitive make_primitive(ConvKind kind, const ConvShape& shape, const dnnl::engine& engine) {
  const OneThread one;
  const Descs d(shape);
  dnnl::primitive_attr attr;
  attr.set_scratchpad_mode(dnnl::scratchpad_mode::user);
  const dnnl::convolution_forward::primitive_desc fwd(
      {dnnl::prop_kind::forward_training, kDirect, d.x, d.weight, d.bias, d.y, d.strides, d.padding,
       d.padding_after},
      attr, engine);
  const auto made = [&](dnnl::primitive primitive, const dnnl::primitive_desc& pd, memory::desc weight) {
    return ConvPrimitive{.primitive = std::move(primitive),
                         .x = d.x,
                         .weight = std::move(weight),
                         .y = d.y,
                         .bias = d.bias,
                         .scratchpad_bytes = static_cast<std::int64_t>(pd.scratchpad_desc().get_size())};
  };
  if (kind == ConvKind::kFwd) return made(dnnl::convolution_forward(fwd), fwd, fwd.weights_desc());
  if (kind == ConvKind::kBwdData) {
    const dnnl::convolution_backward_data::primitive_desc bwd(
        {kDirect, d.x, d.weight, d.y, d.strides, d.padding, d.padding_after}, attr, engine, fwd);
    return made(dnnl::convolution_backward_data(bwd), bwd, bwd.weights_desc());
  }
  const dnnl::convolution_backward_weights::primitive_desc bwd(
      {kDirect, d.x, d.weight, d.y, d.strides, d.padding, d.padding_after}, attr, engine, fwd);
  return made(dnnl::convolution_backward_weights(bwd), bwd, bwd.diff_weights_desc());
}

}  // namespace

std::int64_t ConvPrimitive::weight_floats() const {
  return static_cast<std::int64_t>(weight.get_size() / sizeof(float));
}

ConvPrimitives::ConvPrimitives() : engine_(dnnl::engine::kind::cpu, 0) {}

const ConvPrimitive& ConvPrimitives::get(ConvKind kind, const ConvShape& piece) {
  const auto found = primitives_.find({kind, piece});
  if (found != primitives_.end()) return found->second;
  try {
    return primitives_.emplace(std::pair(kind, piece), make_primitive(kind, piece, engine_)).first->second;
  } catch (const dnnl::error& error) {
    throw Error(ErrorCode::kUnsupported, "oneDNN has no convolution of {}: {}", piece.text(), error.what());
  }
}

void ConvPrimitives::pack_weight(const ConvShape& shape, const ConvPrimitive& to, const float* plain,
                                 float* packed) {
  memory from(plain_weight(shape), engine_, const_cast<float*>(plain));  // oneDNN has no const memory
  memory into(to.weight, engine_, packed);
  copy(shape, from, into);
}

void ConvPrimitives::unpack_weight(const ConvShape& shape, const ConvPrimitive& from, const float* packed,
                                   float* plain) {
  memory source(from.weight, engine_, const_cast<float*>(packed));
  memory into(plain_weight(shape), engine_, plain);
  copy(shape, source, into);
}

void ConvPrimitives::copy(const ConvShape& shape, memory& from, memory& into) {
  std::optional<OneThread> one;
  if (shape.weight_elems() < kSerialCopy) one.emplace();
  dnnl::stream stream(engine_);
  dnnl::reorder(from, into).execute(stream, from, into);
}

std::shared_ptr<ConvPrimitives> conv_primitives_of(const KernelContext& exec) {
  if (exec.stream == nullptr) return std::make_shared<ConvPrimitives>();
  return {std::shared_ptr<void>(), static_cast<ConvPrimitives*>(exec.stream)};
}

}  // namespace trireme::cpu
