#include <cmath>

#include "tests/kernels/kernel_test.h"

namespace trireme::testing {
namespace {

struct Case {
  std::int64_t m, n, k;  // of each product
  int products = 1, groups = 1;
  Transpose tb = Transpose::kYes;
  DType dtype = DType::kFloat32;
  bool has_bias = false;
};

class ProductSumTest : public KernelTest {
 protected:
  struct Operands {
    std::vector<std::vector<float>> a, b;
    std::vector<float> bias;
  };

  Operands operands_of(const Case& c) {
    Operands o;
    for (int p = 0; p < c.products; ++p) {
      o.a.push_back(random(c.m * c.k, 1.0f, c.dtype));
      o.b.push_back(random(c.k * c.n, 1.0f, c.dtype));
    }
    if (c.has_bias) o.bias = random(c.n);
    return o;
  }

  // The sum of products [first, first + count).
  static std::vector<float> run(const Rig& rig, const Case& c, const Operands& o, int first, int count) {
    const Shape b_shape = c.tb == Transpose::kYes ? Shape{c.n, c.k} : Shape{c.k, c.n};
    const DeviceArray d = rig.poisoned({c.m, c.n});
    std::vector<DeviceArray> memory;
    memory.reserve(2 * static_cast<std::size_t>(count) + 1);
    ProductSumArgs args{.products = {}, .d = d, .transpose_b = c.tb, .groups = c.groups, .bias = {}};
    for (int p = first; p < first + count; ++p) {
      const auto i = static_cast<std::size_t>(p);
      memory.push_back(rig.upload({c.m, c.k}, o.a[i], c.dtype));
      memory.push_back(rig.upload(b_shape, o.b[i], c.dtype));
      args.products.push_back({.a = memory[memory.size() - 2], .b = memory.back()});
    }
    if (c.has_bias && first == 0) {
      memory.push_back(rig.upload({c.n}, o.bias));
      args.bias = memory.back();
    }
    rig.run(args);
    return d.download();
  }

  // One product on its own, by the op without groups.
  static std::vector<float> product(const Rig& rig, const Case& c, const Operands& o, int p) {
    const auto i = static_cast<std::size_t>(p);
    const Shape b_shape = c.tb == Transpose::kYes ? Shape{c.n, c.k} : Shape{c.k, c.n};
    const DeviceArray d = rig.poisoned({c.m, c.n}), a = rig.upload({c.m, c.k}, o.a[i], c.dtype),
                      b = rig.upload(b_shape, o.b[i], c.dtype),
                      bias = rig.upload({c.n}, std::vector<float>(c.n));
    MatmulArgs args{.a = a, .b = b, .d = d, .transpose_b = c.tb};
    const DeviceArray own_bias = rig.upload({c.n}, c.has_bias ? o.bias : std::vector<float>(c.n));
    if (c.has_bias && p == 0) args.bias = own_bias;
    rig.run(args);
    return d.download();
  }

  static std::vector<double> reference(const Case& c, const Operands& o) {
    std::vector<double> d(static_cast<std::size_t>(c.m * c.n));
    for (std::int64_t i = 0; i < c.m; ++i) {
      for (std::int64_t j = 0; j < c.n; ++j) {
        double sum = c.has_bias ? o.bias[static_cast<std::size_t>(j)] : 0.0;
        for (std::size_t p = 0; p < o.a.size(); ++p) {
          for (std::int64_t l = 0; l < c.k; ++l) {
            sum += double{o.a[p][static_cast<std::size_t>(i * c.k + l)]} *
                   o.b[p][static_cast<std::size_t>(c.tb == Transpose::kYes ? j * c.k + l : l * c.n + j)];
          }
        }
        d[static_cast<std::size_t>(i * c.n + j)] = sum;
      }
    }
    return d;
  }
};

// Adds sums in one binary tree.
std::vector<float> tree_sum(std::vector<std::vector<float>> sums) {
  for (std::size_t apart = 1; apart < sums.size(); apart *= 2) {
    for (std::size_t left = 0; left < sums.size(); left += 2 * apart) {
      for (std::size_t i = 0; i < sums[left].size(); ++i) sums[left][i] += sums[left + apart][i];
    }
  }
  return sums.front();
}

TEST_P(ProductSumTest, MatchesReference) {
  for (const DType dtype : kFloatTypes) {
    for (const Transpose tb : {Transpose::kNo, Transpose::kYes}) {
      for (Case c : {Case{1, 1, 1}, Case{3, 50, 8, 2, 8}, Case{130, 99, 24, 1, 4}, Case{65, 66, 68, 4, 2},
                     Case{200, 70, 45, 8, 1}, Case{9, 130, 2064, 1, 2}, Case{210, 100, 1030, 2, 1}}) {
        c.tb = tb, c.dtype = dtype, c.has_bias = c.products != 2;
        SCOPED_TRACE(fmt::format("{} x [{}, {}, {}] in {} groups, {} {}", c.products, c.m, c.n, c.k, c.groups,
                                 name(dtype), tb == Transpose::kYes ? "transposed" : ""));
        const Operands o = operands_of(c);
        const Outputs out = same_bits_for_all_threads(
            [&](const Rig& rig) -> Outputs { return {run(rig, c, o, 0, c.products)}; });
        expect_close(out[0], reference(c, o), kForwardTolerance, "sum of products");
      }
    }
  }
}

// Equals separate products followed by additions.
TEST_P(ProductSumTest, OfOneGroupHasTheBitsOfProductsAndSums) {
  for (const DType dtype : kFloatTypes) {
    // Products that sgemm reads in place, that need a copy of b, and that use panels.
    for (Case c :
         {Case{130, 99, 33, 4}, Case{300, 96, 64, 8}, Case{70, 40, 700, 2}, Case{256, 520, 2080, 2}}) {
      c.dtype = dtype, c.has_bias = true;
      SCOPED_TRACE(fmt::format("{} x [{}, {}, {}] {}", c.products, c.m, c.n, c.k, name(dtype)));
      const Operands o = operands_of(c);
      const Outputs out = same_bits_for_all_threads([&](const Rig& rig) -> Outputs {
        std::vector<std::vector<float>> sums;
        for (int p = 0; p < c.products; ++p) sums.push_back(product(rig, c, o, p));
        return {run(rig, c, o, 0, c.products), tree_sum(std::move(sums))};
      });
      EXPECT_TRUE(same_bits(out[0], out[1]));
    }
  }
}

// The distribution of products over ranks changes no bit: adding parts of the sum gives the sum.
TEST_P(ProductSumTest, OfSubtreesIsTheSameSum) {
  for (const DType dtype : kFloatTypes) {
    for (Case c : {Case{130, 99, 24, 8, 2}, Case{70, 40, 1056, 4, 2}}) {
      c.dtype = dtype, c.has_bias = true;
      const Operands o = operands_of(c);
      const Outputs out = same_bits_for_all_threads([&](const Rig& rig) -> Outputs {
        Outputs sums{run(rig, c, o, 0, c.products)};
        for (int parts = 2; parts <= c.products; parts *= 2) {
          const int count = c.products / parts;
          std::vector<std::vector<float>> of_parts;
          for (int part = 0; part < parts; ++part) of_parts.push_back(run(rig, c, o, part * count, count));
          sums.push_back(tree_sum(std::move(of_parts)));
        }
        return sums;
      });
      for (std::size_t i = 1; i < out.size(); ++i) EXPECT_TRUE(same_bits(out[0], out[i])) << i;
    }
  }
}

TRIREME_INSTANTIATE_KERNEL_TEST(ProductSumTest);

}  // namespace
}  // namespace trireme::testing
