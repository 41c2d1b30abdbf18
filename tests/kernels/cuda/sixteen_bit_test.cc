// Compares kernels in fp16 and bf16 with the same kernels in fp32, on inputs that 16 bits hold exactly. They
// differ only by the rounding of results.
#include <gtest/gtest.h>

#include <bit>
#include <cmath>
#include <cstring>
#include <random>

#include "kernels/backend.h"
#include "runtime/context.h"

namespace trireme {
namespace {

// For normal numbers; smaller ones become zero.
std::uint16_t to_bits(DType dtype, float value) {
  const auto bits = std::bit_cast<std::uint32_t>(value);
  const int dropped = dtype == DType::kBFloat16 ? 16 : 13;
  const std::uint32_t rounded = (bits + (1u << (dropped - 1)) - 1 + (bits >> dropped & 1u)) >> dropped;
  if (dtype == DType::kBFloat16) return static_cast<std::uint16_t>(rounded);
  const std::uint32_t sign = bits >> 31 << 15;
  const std::uint32_t magnitude = rounded & 0x3ffffu;  // exponent and fraction, without the sign
  const std::uint32_t offset = (127u - 15u) << 10;     // of the exponents
  return static_cast<std::uint16_t>(magnitude < offset + 1024 ? sign : sign | (magnitude - offset));
}

float from_bits(DType dtype, std::uint16_t bits) {
  if (dtype == DType::kBFloat16) return std::bit_cast<float>(std::uint32_t{bits} << 16);
  const int exponent = bits >> 10 & 31, fraction = bits & 1023;
  const float magnitude = exponent == 0 ? std::ldexp(static_cast<float>(fraction), -24)
                                        : std::ldexp(static_cast<float>(1024 + fraction), exponent - 25);
  return bits >> 15 ? -magnitude : magnitude;
}

class SixteenBit : public ::testing::TestWithParam<DType> {
 protected:
  SixteenBit() : ctx_(Context::create({DeviceType::kCuda, 0}, 1)) {}

  // Values that GetParam() holds exactly.
  std::vector<float> random(std::int64_t n, float factor = 1.0f) {
    std::uniform_real_distribution<float> uniform(-factor, factor);
    std::vector<float> values(static_cast<std::size_t>(n));
    for (float& value : values) value = from_bits(GetParam(), to_bits(GetParam(), uniform(generator_)));
    return values;
  }

  Tensor upload(DType dtype, const Shape& shape, const std::vector<float>& values) const {
    if (dtype == DType::kFloat32) return ctx_.from_host(values.data(), shape, dtype);
    std::vector<std::uint16_t> bits;
    for (const float value : values) bits.push_back(to_bits(dtype, value));
    return ctx_.from_host(bits.data(), shape, dtype);
  }

  Tensor poisoned(DType dtype, const Shape& shape) const {
    return upload(dtype, shape, std::vector<float>(static_cast<std::size_t>(shape.num_elems()), -777.0f));
  }

  std::vector<float> download(const Tensor& tensor) const {
    if (tensor.dtype() == DType::kFloat32) return ctx_.to_host(tensor);
    std::vector<std::uint16_t> bits(static_cast<std::size_t>(tensor.num_elems()));
    ctx_.backend->copy_to_host(ctx_.exec, bits.data(), tensor);
    std::vector<float> values;
    for (const std::uint16_t one : bits) values.push_back(from_bits(tensor.dtype(), one));
    return values;
  }

  // run(dtype) returns its outputs. 16-bit outputs must equal the fp32 ones up to rounding. `roundings`
  // counts the result and all intermediates that are stored in 16 bits.
  template <class Run>
  void compare(Run run, int roundings = 1) {
    const std::vector<Tensor> expected = run(DType::kFloat32), actual = run(GetParam());
    ASSERT_EQ(actual.size(), expected.size());
    const double tolerance = roundings * (GetParam() == DType::kBFloat16 ? 4e-3 : 5e-4);  // unit round-offs
    for (std::size_t o = 0; o < actual.size(); ++o) {
      const std::vector<float> a = download(actual[o]), e = download(expected[o]);
      double difference = 0, norm = 0;
      for (std::size_t i = 0; i < e.size(); ++i) {
        difference += (a[i] - e[i]) * (a[i] - e[i]);
        norm += e[i] * e[i];
      }
      EXPECT_GT(norm, 0) << "output " << o;
      EXPECT_TRUE(std::sqrt(difference / norm) < tolerance)
          << "output " << o << ": relative error " << std::sqrt(difference / norm);
    }
  }

  Context ctx_;
  std::mt19937 generator_{11};
};

TEST_P(SixteenBit, Elementwise) {
  for (const std::int64_t n : {3, 1000, 4096}) {
    const auto a = random(n), b = random(n, 4.0f), factor = random(1);
    compare([&](DType dtype) {
      const Tensor x = upload(dtype, {n}, a), y = upload(dtype, {n}, b), sum = poisoned(dtype, {n});
      const Tensor dx = poisoned(dtype, {n});
      ctx_.run(AddArgs{.a = x, .b = y, .out = sum});
      ctx_.run(ActivationBwdArgs{.dy = x, .pre = y, .dx = dx});
      ctx_.run(ScaleArgs{.x = x, .factor = upload(DType::kFloat32, {}, factor)});
      return std::vector<Tensor>{sum, dx, x};
    });
  }
}

TEST_P(SixteenBit, Dropout) {
  for (const std::int64_t n : {7, 64}) {
    const auto a = random(3 * n), r = random(3 * n);
    compare([&](DType dtype) {
      const Tensor y = poisoned(dtype, {3, n});
      ctx_.run(DropoutArgs{.x = upload(dtype, {3, n}, a),
                           .residual = upload(dtype, {3, n}, r),
                           .y = y,
                           .p = 0.25f,
                           .rng = {.seed = 3},
                           .first_sample = 5});
      return std::vector<Tensor>{y};
    });
  }
}

TEST_P(SixteenBit, LayerNorm) {
  for (const auto& [rows, cols] :
       {std::pair<std::int64_t, std::int64_t>{5, 127}, {70, 256}, {9, 1024}, {6, 1536}}) {
    SCOPED_TRACE(cols);
    const auto x = random(rows * cols), dy = random(rows * cols), g = random(cols), b = random(cols),
               add = random(rows * cols);
    compare([&](DType dtype) {
      const Tensor in = upload(dtype, {rows, cols}, x), gamma = upload(dtype, {cols}, g);
      const Tensor y = poisoned(dtype, {rows, cols}), dx = poisoned(dtype, {rows, cols});
      const Tensor mean = poisoned(DType::kFloat32, {rows}), rstd = poisoned(DType::kFloat32, {rows});
      const Tensor dgamma = poisoned(DType::kFloat32, {cols}), dbeta = poisoned(DType::kFloat32, {cols});
      ctx_.run(LayerNormFwdArgs{
          .x = in, .gamma = gamma, .beta = upload(dtype, {cols}, b), .y = y, .mean = mean, .rstd = rstd});
      ctx_.run(LayerNormBwdArgs{.dy = upload(dtype, {rows, cols}, dy),
                                .x = in,
                                .gamma = gamma,
                                .mean = mean,
                                .rstd = rstd,
                                .dx_add = upload(dtype, {rows, cols}, add),
                                .dx = dx,
                                .dgamma = dgamma,
                                .dbeta = dbeta});
      return std::vector<Tensor>{y, dx, dgamma, dbeta};
    });
  }
}

TEST_P(SixteenBit, ColumnSum) {
  for (const auto& [rows, cols] : {std::pair<std::int64_t, std::int64_t>{300, 61}, {130, 264}}) {
    const auto x = random(rows * cols);
    compare([&](DType dtype) {
      const Tensor out = poisoned(DType::kFloat32, {cols});
      ctx_.run(ColumnSumArgs{.x = upload(dtype, {rows, cols}, x), .out = out});
      return std::vector<Tensor>{out};
    });
  }
}

TEST_P(SixteenBit, Embedding) {
  constexpr std::int64_t kIds = 11, kSamples = 3, kLength = 9;
  for (const std::int64_t cols : {5, 72}) {
    const auto table = random(kIds * cols), positions = random(kLength * cols),
               dx = random(kSamples * kLength * cols);
    std::vector<std::int32_t> ids;
    for (std::int64_t i = 0; i < kSamples * kLength; ++i)
      ids.push_back(static_cast<std::int32_t>(i * i % kIds));
    compare([&](DType dtype) {
      const Tensor tokens = ctx_.from_host(ids.data(), {kSamples, kLength}, DType::kInt32);
      const Tensor x = poisoned(dtype, {kSamples, kLength, cols});
      const Tensor dtable = poisoned(DType::kFloat32, {kIds, cols}),
                   dpositions = poisoned(DType::kFloat32, {kLength, cols});
      ctx_.run(EmbeddingFwdArgs{.tokens = tokens,
                                .table = upload(dtype, {kIds, cols}, table),
                                .positions = upload(dtype, {kLength, cols}, positions),
                                .x = x});
      ctx_.run(EmbeddingBwdArgs{.dx = upload(dtype, {kSamples, kLength, cols}, dx),
                                .tokens = tokens,
                                .dtable = dtable,
                                .dpositions = dpositions});
      return std::vector<Tensor>{x, dtable, dpositions};
    });
  }
}

TEST_P(SixteenBit, CrossEntropy) {
  constexpr std::int64_t kRows = 5;
  for (const std::int64_t cols : {61, 512, 5000}) {
    const auto x = random(kRows * cols, 4.0f);
    const std::vector<std::int32_t> ids = {0, 60, -1, 7, 33};
    compare([&](DType dtype) {
      const Tensor logits = upload(dtype, {kRows, cols}, x), loss = poisoned(DType::kFloat32, {});
      ctx_.run(SoftmaxCrossEntropyArgs{.logits = logits,
                                       .targets = ctx_.from_host(ids.data(), {kRows}, DType::kInt32),
                                       .loss = loss,
                                       .inv_num_targets = 64.0f,  // keeps small gradients normal
                                       .write_gradient = true});
      return std::vector<Tensor>{loss, logits};
    });
  }
}

TEST_P(SixteenBit, Attention) {
  struct Case {
    std::int64_t samples, length, heads, head_dim;
    bool causal;
    float dropout;
    std::int64_t kv_heads = heads;
  };
  for (const Case& c :
       {Case{2, 70, 2, 16, true, 0.0f}, Case{1, 33, 3, 7, false, 0.0f}, Case{2, 20, 1, 64, true, 0.2f},
        Case{1, 40, 1, 96, true, 0.0f}, Case{2, 128, 6, 16, true, 0.0f, 2}}) {
    SCOPED_TRACE(c.head_dim);
    const std::int64_t width = c.heads * c.head_dim, packed = (c.heads + 2 * c.kv_heads) * c.head_dim;
    const auto x = random(c.samples * c.length * packed), d = random(c.samples * c.length * width);
    // cuDNN also rounds the probabilities and the score gradients, as factors of products: 1e-3 in fp16.
    const auto run = [&](DType dtype) {
      const Tensor qkv = upload(dtype, {c.samples, c.length, packed}, x);
      const Tensor out = poisoned(dtype, {c.samples, c.length, width});
      const Tensor lse = poisoned(DType::kFloat32, {c.samples, c.heads, c.length});
      const Tensor dqkv = poisoned(dtype, {c.samples, c.length, packed});
      const int heads = static_cast<int>(c.heads), kv_heads = static_cast<int>(c.kv_heads);
      ctx_.run(AttentionFwdArgs{.qkv = qkv,
                                .out = out,
                                .lse = lse,
                                .num_heads = heads,
                                .num_kv_heads = kv_heads,
                                .scale = 0.25f,
                                .causal = c.causal,
                                .dropout_p = c.dropout});
      ctx_.run(AttentionBwdArgs{.dout = upload(dtype, {c.samples, c.length, width}, d),
                                .qkv = qkv,
                                .out = out,
                                .lse = lse,
                                .dqkv = dqkv,
                                .num_heads = heads,
                                .num_kv_heads = kv_heads,
                                .scale = 0.25f,
                                .causal = c.causal,
                                .dropout_p = c.dropout});
      return std::vector<Tensor>{out, lse, dqkv};
    };
    compare(run, /*roundings=*/2);
  }
}

TEST_P(SixteenBit, MatmulWithEpilogues) {
  for (const auto& [m, n, k] : {std::array<std::int64_t, 3>{9, 24, 16}, {5, 13, 7}}) {
    const auto a = random(m * k), b = random(n * k), bias = random(n), residual = random(m * n);
    compare([&](DType dtype) {
      MatmulArgs args{
          .a = upload(dtype, {m, k}, a), .b = upload(dtype, {n, k}, b), .transpose_b = Transpose::kYes};
      const Tensor ta = upload(dtype, {m, k}, a), tb = upload(dtype, {n, k}, b),
                   tbias = upload(dtype, {n}, bias), tresidual = upload(dtype, {m, n}, residual);
      args.a = ta;
      args.b = tb;
      std::vector<Tensor> outputs;
      const auto run = [&] {
        outputs.push_back(poisoned(dtype, {m, n}));
        args.d = outputs.back();
        ctx_.run(args);
      };
      run();
      args.bias = tbias;
      run();
      args.activation = Activation::kGeluTanh;
      run();
      const Tensor pre = poisoned(dtype, {m, n});
      args.pre_activation = pre;
      run();
      outputs.push_back(pre);
      args.residual = tresidual;
      run();
      // A weight gradient: 16-bit factors, fp32 sum.
      const Tensor weight =
          upload(DType::kFloat32, {n, k}, std::vector<float>(static_cast<std::size_t>(n * k), 0.5f));
      ctx_.run(MatmulArgs{.a = tresidual,
                          .b = ta,
                          .d = weight,
                          .transpose_a = Transpose::kYes,
                          .mode = GradientMode::kAccumulate});
      outputs.push_back(weight);
      return outputs;
    });
  }
}

TEST_P(SixteenBit, OptimizersWriteTheWorkingCopy) {
  for (const std::int64_t n : {7, 1024}) {
    const auto p = random(n), g = random(n);
    const Tensor param = upload(DType::kFloat32, {n}, p), working = poisoned(GetParam(), {n});
    const Tensor m = ctx_.zeros({n}), v = ctx_.zeros({n}), lr = upload(DType::kFloat32, {}, {0.1f}),
                 clip = upload(DType::kFloat32, {}, {1.0f});
    const std::int32_t one = 1;
    const Tensor step = ctx_.from_host(&one, {}, DType::kInt32), grad = upload(DType::kFloat32, {n}, g);
    const auto expect_rounded = [&] {
      const auto masters = download(param), copies = download(working);
      for (std::size_t i = 0; i < masters.size(); ++i) {
        EXPECT_EQ(copies[i], from_bits(GetParam(), to_bits(GetParam(), masters[i])));
      }
    };
    ctx_.run(AdamWArgs{.param = param,
                       .exp_avg = m,
                       .exp_avg_sq = v,
                       .grad = grad,
                       .working = working,
                       .lr = lr,
                       .clip = clip,
                       .step = step});
    expect_rounded();
    ctx_.run(SgdArgs{.param = param, .grad = grad, .working = working, .lr = lr, .clip = clip, .step = step});
    expect_rounded();
    ctx_.run(
        LionArgs{.param = param, .exp_avg = m, .grad = grad, .working = working, .lr = lr, .clip = clip});
    expect_rounded();
  }
}

INSTANTIATE_TEST_SUITE_P(Cuda, SixteenBit, ::testing::Values(DType::kFloat16, DType::kBFloat16),
                         [](const auto& info) { return std::string(name(info.param)); });

}  // namespace
}  // namespace trireme
