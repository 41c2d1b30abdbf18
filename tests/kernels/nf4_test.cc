#include "runtime/base/nf4.h"

#include "runtime/base/error.h"
#include "tests/kernels/kernel_test.h"

namespace trireme::testing {
namespace {

struct Quantized {
  std::vector<std::uint8_t> codes, scale_codes;
  std::vector<float> scales;

  explicit Quantized(const std::vector<float>& x)
      : codes((x.size() + 1) / 2),
        scale_codes((x.size() + 63) / 64),
        scales(static_cast<std::size_t>(num_nf4_scales(std::ssize(x)))) {
    quantize_nf4(x, {.codes = codes, .scale_codes = scale_codes, .scales = scales}, 2);
  }
  std::vector<float> numbers(std::size_t n) const {
    std::vector<float> numbers(n);
    dequantize_nf4({.codes = codes, .scale_codes = scale_codes, .scales = scales}, 0, numbers);
    return numbers;
  }
};

class Nf4Test : public KernelTest {
 protected:
  static DeviceArray upload_bytes(const Rig& rig, const std::vector<std::uint8_t>& bytes) {
    DeviceArray array = rig.poisoned({std::ssize(bytes)}, DType::kUInt8);
    rig->copy_from_host(rig.exec(), array.view(), bytes.data());
    return array;
  }
};

TEST_P(Nf4Test, DequantizesAsTheHostDoes) {
  for (const DType dtype : {DType::kFloat32, DType::kFloat16, DType::kBFloat16}) {
    for (const std::int64_t n : {1, 7, 64, 130, 2048, 64 * 256 + 65, 40000}) {
      const auto x = random(n, 0.3f);
      const Quantized weight(x);
      const Outputs out = same_bits_for_all_threads([&](const Rig& rig) -> Outputs {
        const DeviceArray codes = upload_bytes(rig, weight.codes),
                          scale_codes = upload_bytes(rig, weight.scale_codes),
                          scales = rig.upload({std::ssize(weight.scales)}, weight.scales),
                          y = rig.poisoned({n}, dtype);
        rig.run(DequantizeNf4Args{.codes = codes, .scale_codes = scale_codes, .scales = scales, .y = y});
        return {y.download()};
      });
      std::vector<float> expected = weight.numbers(x.size());
      for (float& value : expected) value = rounded(value, dtype);
      EXPECT_EQ(out[0], expected) << n << " of " << name(dtype);
    }
  }
}

TEST_P(Nf4Test, RefusesIntegers) {
  const Rig r = rig();
  const std::vector<float> x(64, 1.0f);
  const Quantized weight(x);
  const DeviceArray codes = upload_bytes(r, weight.codes), scale_codes = upload_bytes(r, weight.scale_codes),
                    scales = r.upload({std::ssize(weight.scales)}, weight.scales),
                    y = r.poisoned({64}, DType::kInt32);
  EXPECT_THROW(r.run(DequantizeNf4Args{.codes = codes, .scale_codes = scale_codes, .scales = scales, .y = y}),
               Error);
}

TRIREME_INSTANTIATE_KERNEL_TEST(Nf4Test);

}  // namespace
}  // namespace trireme::testing
