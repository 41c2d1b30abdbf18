// Every instruction set of this machine must compute the same as the newest one, which the conformance suite
// compares with double.
#include "kernels/cpu/numerics.h"

#include <gtest/gtest.h>

#include <cmath>
#include <vector>

#include "tests/kernels/cpu/numerics_data.h"

namespace trireme::cpu {
namespace {

constexpr double kTolerance = 1e-5;
constexpr std::int64_t kRows = 7, kCols = 131;

/// The results of one table for fixed inputs.
struct Results {
  Floats gelu, gelu_bwd, swiglu, swiglu_bwd, dropout, norms, y, statistics, dx, dgamma, logits, losses, adamw,
      lion, sgd, out, dqkv, cross, lstm, dgates;

  std::vector<const Floats*> all() const {
    return {&gelu,   &gelu_bwd, &swiglu, &swiglu_bwd, &dropout, &norms, &y,    &statistics, &dx,   &dgamma,
            &logits, &losses,   &adamw,  &lion,       &sgd,     &out,   &dqkv, &cross,      &lstm, &dgates};
  }
};

void run_elementwise(const Numerics& n, Results& r) {
  const Floats x = random(kRows * kCols, 4.0f), dy = random(kRows * kCols), bias = random(kCols);
  r.gelu = x;
  n.activation->epilogue({.d = r.gelu.data(),
                          .rows = kRows,
                          .cols = kCols,
                          .pitch = kCols,
                          .bias = bias.data(),
                          .residual = dy.data(),
                          .residual_pitch = kCols,
                          .activation = Activation::kGeluTanh});
  r.gelu_bwd.resize(x.size());
  n.activation->gelu_tanh_bwd(dy.data(), x.data(), r.gelu_bwd.data(), kRows * kCols);
  r.swiglu.resize(x.size());
  n.activation->swiglu(x.data(), dy.data(), r.swiglu.data(), kRows * kCols);
  r.swiglu_bwd.resize(2 * x.size());
  n.activation->swiglu_bwd(dy.data(), x.data(), dy.data(), r.swiglu_bwd.data(),
                           r.swiglu_bwd.data() + x.size(), kRows * kCols);
  r.dropout.resize(x.size());
  n.elementwise->dropout({.x = x.data(),
                          .residual = dy.data(),
                          .y = r.dropout.data(),
                          .n = kRows * kCols,
                          .first_elem = 40,
                          .sample = 3,
                          .p = 0.3f,
                          .key = {{1, 2}, 3, 4}});
  r.norms.resize(3);
  n.elementwise->squared_norm_blocks(random(3 * 1024).data(), r.norms.data(), 3);
}

void run_rows(const Numerics& n, Results& r) {
  const Floats x = random(kRows * kCols, 4.0f), dy = random(kRows * kCols), gamma = random(kCols);
  r.y.resize(x.size());
  r.statistics.resize(2 * kRows);
  float *mean = r.statistics.data(), *rstd = mean + kRows;
  n.layer_norm->fwd({.x = x.data(),
                     .gamma = gamma.data(),
                     .beta = gamma.data(),
                     .y = r.y.data(),
                     .mean = mean,
                     .rstd = rstd,
                     .rows = kRows,
                     .cols = kCols,
                     .epsilon = 1e-5f});
  r.dx.resize(x.size());
  r.dgamma.resize(2 * kCols);
  n.layer_norm->bwd({.dy = dy.data(),
                     .x = x.data(),
                     .gamma = gamma.data(),
                     .mean = mean,
                     .rstd = rstd,
                     .dx_add = x.data(),
                     .dx = r.dx.data(),
                     .dgamma = r.dgamma.data(),
                     .dbeta = r.dgamma.data() + kCols,
                     .rows = kRows,
                     .cols = kCols});
  r.logits = x;
  for (std::int64_t m = 0; m < kRows; ++m) {
    r.losses.push_back(n.cross_entropy->row(r.logits.data() + m * kCols, kCols, 5, 0.5f, true));
  }
}

void run_optimizers(const Numerics& n, Results& r) {
  const Floats grad = random(kCols);
  Floats exp_avg_sq(kCols, 0.25f), buffer = random(kCols);
  r.adamw = random(2 * kCols);  // param, then exp_avg
  n.optimizer->adamw({.param = r.adamw.data(),
                      .exp_avg = r.adamw.data() + kCols,
                      .exp_avg_sq = exp_avg_sq.data(),
                      .grad = grad.data(),
                      .n = kCols,
                      .clip = 0.5f,
                      .beta1 = 0.9f,
                      .beta2 = 0.95f,
                      .epsilon = 1e-8f,
                      .decay = 1e-3f,
                      .step_size = 0.1f,
                      .rsqrt_bias2 = 1.5f});
  r.lion = random(2 * kCols);
  n.optimizer->lion({.param = r.lion.data(),
                     .exp_avg = r.lion.data() + kCols,
                     .grad = grad.data(),
                     .n = kCols,
                     .clip = 0.5f,
                     .lr = 0.1f,
                     .beta1 = 0.9f,
                     .beta2 = 0.99f,
                     .decay = 1e-2f});
  r.sgd = random(kCols);
  n.optimizer->sgd({.param = r.sgd.data(),
                    .momentum_buffer = buffer.data(),
                    .grad = grad.data(),
                    .n = kCols,
                    .clip = 0.5f,
                    .lr = 0.1f,
                    .momentum = 0.9f,
                    .weight_decay = 0.1f,
                    .first_step = false,
                    .nesterov = true});
}

void run_attention(const Numerics& n, Results& r) {
  constexpr std::int64_t kSeqLen = 150, kHeadDim = 20, kPitch = 3 * kHeadDim;
  const Floats qkv = random(kSeqLen * kPitch, 2.0f), dout = random(kSeqLen * kHeadDim);
  r.out.resize(dout.size());
  r.dqkv.resize(qkv.size());
  Floats lse(kSeqLen);
  const AttentionHead head{.element = Element::kFp32,
                           .q = qkv.data(),
                           .k = qkv.data() + kHeadDim,
                           .v = qkv.data() + 2 * kHeadDim,
                           .q_pitch = kPitch,
                           .kv_pitch = kPitch,
                           .out = r.out.data(),
                           .out_pitch = kHeadDim,
                           .num_queries = kSeqLen,
                           .num_keys = kSeqLen,
                           .head_dim = kHeadDim,
                           .scale = 0.25f,
                           .causal = true,
                           .dropout_p = 0.2f,
                           .first_elem = 6,
                           .sample = 9,
                           .key = {{5, 6}, 7, 8}};
  Floats fwd_scratch(n.attention_fwd->scratch_floats(kSeqLen, kHeadDim));
  n.attention_fwd->run({.head = head, .out = r.out.data(), .lse = lse.data(), .scratch = fwd_scratch.data()});
  Floats bwd_scratch(n.attention_bwd->scratch_floats(kSeqLen, kHeadDim));
  n.attention_bwd->run({.head = head,
                        .group = 1,
                        .dout = dout.data(),
                        .lse = lse.data(),
                        .dq = r.dqkv.data(),
                        .dk = r.dqkv.data() + kHeadDim,
                        .dv = r.dqkv.data() + 2 * kHeadDim,
                        .scratch = bwd_scratch.data()});
}

// 77 keys for 150 queries, in separate tensors.
void run_cross_attention(const Numerics& n, Results& r) {
  constexpr std::int64_t kQueries = 150, kKeys = 77, kHeadDim = 20;
  const Floats q = random(kQueries * kHeadDim, 2.0f), k = random(kKeys * kHeadDim, 2.0f),
               v = random(kKeys * kHeadDim + 1), dout = random(kQueries * kHeadDim + 1);
  r.cross.resize(2 * q.size() + 2 * k.size());  // out, dq, dk, dv
  float *const out = r.cross.data(), *const dq = out + q.size(), *const dk = dq + q.size();
  Floats lse(kQueries), scratch(n.attention_bwd->scratch_floats(kKeys, kHeadDim)),
      fwd_scratch(n.attention_fwd->scratch_floats(kKeys, kHeadDim));
  const AttentionHead head{.element = Element::kFp32,
                           .q = q.data(),
                           .k = k.data(),
                           .v = v.data(),
                           .q_pitch = kHeadDim,
                           .kv_pitch = kHeadDim,
                           .out = out,
                           .out_pitch = kHeadDim,
                           .num_queries = kQueries,
                           .num_keys = kKeys,
                           .head_dim = kHeadDim,
                           .scale = 0.25f,
                           .causal = false};
  n.attention_fwd->run({.head = head, .out = out, .lse = lse.data(), .scratch = fwd_scratch.data()});
  n.attention_bwd->run({.head = head,
                        .group = 1,
                        .dout = dout.data(),
                        .lse = lse.data(),
                        .dq = dq,
                        .dk = dk,
                        .dv = dk + k.size(),
                        .scratch = scratch.data()});
}

void run_lstm(const Numerics& n, Results& r) {
  const Floats x = random(4 * kCols, 4.0f), bias = random(4 * kCols + 1), c = random(kCols, 2.0f);
  r.lstm.resize(6 * kCols);  // gates, c, h
  float *const gates = r.lstm.data(), *const cells = gates + 4 * kCols, *const h = cells + kCols;
  n.lstm->fwd({.x = {x.data(), kCols},
               .product = {bias.data() + 1, kCols},
               .bias = {bias.data(), kCols},
               .c_before = c.data(),
               .gates = {gates, kCols},
               .c = cells,
               .h = h,
               .units = kCols});
  r.dgates = random(5 * kCols);  // of gates, then of cells
  n.lstm->bwd({.gates = {gates, kCols},
               .c = cells,
               .c_before = c.data(),
               .dh = x.data(),
               .dh_next = bias.data(),
               .dc = r.dgates.data() + 4 * kCols,
               .dgates = {r.dgates.data(), kCols},
               .units = kCols});
}

Results run(const Numerics& n) {
  Results r;
  run_lstm(n, r);
  run_elementwise(n, r);
  run_rows(n, r);
  run_optimizers(n, r);
  run_attention(n, r);
  run_cross_attention(n, r);
  return r;
}

TEST(NumericsTest, SquaredErrorsAndProducts) {
  const std::int64_t n = 1003;
  Floats a(n), b(n), difference(n), product(n);
  double expected = 0;
  for (std::size_t i = 0; i < a.size(); ++i) {
    a[i] = std::sin(static_cast<float>(i)), b[i] = std::cos(2.0f * static_cast<float>(i));
    expected += (double{a[i]} - b[i]) * (double{a[i]} - b[i]);
  }
  for (const Numerics* const* table = supported_numerics(); *table != nullptr; ++table) {
    SCOPED_TRACE((*table)->isa);
    const ElementwiseNumerics& elementwise = *(*table)->elementwise;
    EXPECT_NEAR(elementwise.squared_error(a.data(), b.data(), n), expected, 1e-6 * expected);
    elementwise.scaled_difference(a.data(), b.data(), 3.0f, difference.data(), n);
    elementwise.mul(a.data(), b.data(), product.data(), n);
    for (std::size_t i = 0; i < a.size(); ++i) {
      EXPECT_EQ(difference[i], (a[i] - b[i]) * 3.0f) << i;
      EXPECT_EQ(product[i], a[i] * b[i]) << i;
    }
  }
}

// The units of a piece depend on the number of threads.
TEST(NumericsTest, LstmCellsAreTheSameInVectorsAndAlone) {
  for (const Numerics* const* n = supported_numerics(); *n != nullptr; ++n) {
    Results all, alone;
    run_lstm(**n, all);
    alone.lstm.resize(all.lstm.size());
    const Floats x = random(4 * kCols, 4.0f), bias = random(4 * kCols + 1), c = random(kCols, 2.0f);
    alone.dgates = random(5 * kCols);
    for (std::int64_t u = 0; u < kCols; ++u) {
      float* const gates = alone.lstm.data() + u;
      (*n)->lstm->fwd({.x = {x.data() + u, kCols},
                       .product = {bias.data() + 1 + u, kCols},
                       .bias = {bias.data() + u, kCols},
                       .c_before = c.data() + u,
                       .gates = {gates, kCols},
                       .c = gates + 4 * kCols,
                       .h = gates + 5 * kCols,
                       .units = 1});
      (*n)->lstm->bwd({.gates = {gates, kCols},
                       .c = gates + 4 * kCols,
                       .c_before = c.data() + u,
                       .dh = x.data() + u,
                       .dh_next = bias.data() + u,
                       .dc = alone.dgates.data() + 4 * kCols + u,
                       .dgates = {alone.dgates.data() + u, kCols},
                       .units = 1});
    }
    EXPECT_EQ(bits(all.lstm), bits(alone.lstm)) << (*n)->isa;
    EXPECT_EQ(bits(all.dgates), bits(alone.dgates)) << (*n)->isa;
  }
}

TEST(NumericsTest, TheNewestIsChosen) {
  ASSERT_NE(supported_numerics()[0], nullptr);
  EXPECT_EQ(&numerics(), supported_numerics()[0]);
}

TEST(NumericsTest, InstructionSetsAgree) {
  const Results newest = run(numerics());
  int compared = 0;
  for (const Numerics* const* other = supported_numerics() + 1; *other != nullptr; ++other, ++compared) {
    const Results older = run(**other);
    for (std::size_t i = 0; i < newest.all().size(); ++i) {
      const Floats &a = *newest.all()[i], &b = *older.all()[i];
      ASSERT_EQ(a.size(), b.size());
      double difference = 0, norm = 0;
      for (std::size_t e = 0; e < a.size(); ++e) {
        difference += std::pow(double{a[e]} - b[e], 2);
        norm += std::pow(double{a[e]}, 2);
      }
      EXPECT_TRUE(std::sqrt(difference / norm) < kTolerance)
          << (*other)->isa << " against " << numerics().isa << ", result " << i << ": "
          << std::sqrt(difference / norm);
    }
  }
  if (compared == 0) GTEST_SKIP() << "this machine has one instruction set only: " << numerics().isa;
}

}  // namespace
}  // namespace trireme::cpu
