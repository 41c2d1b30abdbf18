#include "runtime/data/resample.h"

#include <algorithm>
#include <cmath>
#include <vector>

namespace trireme {
namespace {

/// The input pixels of one output pixel, along one axis.
struct Taps {
  int first = 0;
  std::vector<float> weights;  // sum to 1
};

std::vector<Taps> make_taps(double start, double length, int out_length, int in_length) {
  const double scale = length / out_length;
  const double reach = std::max(1.0, scale);
  std::vector<Taps> taps(static_cast<std::size_t>(out_length));
  std::vector<double> weights;
  for (int i = 0; i < out_length; ++i) {
    const double center = start + (i + 0.5) * scale;
    const int first = std::clamp(static_cast<int>(std::floor(center - reach)), 0, in_length - 1);
    const int last = std::clamp(static_cast<int>(std::ceil(center + reach)), first, in_length - 1);
    weights.clear();
    double sum = 0;
    for (int x = first; x <= last; ++x) {
      weights.push_back(std::max(0.0, 1.0 - std::abs(x + 0.5 - center) / reach));
      sum += weights.back();
    }
    Taps& out = taps[static_cast<std::size_t>(i)];
    const auto used = [](double w) { return w > 0; };
    const auto begin = std::find_if(weights.begin(), weights.end(), used);
    const auto end = std::find_if(weights.rbegin(), weights.rend(), used).base();
    out.first = first + static_cast<int>(begin - weights.begin());
    for (auto w = begin; w != end; ++w) out.weights.push_back(static_cast<float>(*w / sum));
  }
  return taps;
}

/// Weighted sum of rows over the columns [first, first + num_columns): `sum` [num_columns, 3].
void add_rows(const Image& image, const Taps& taps, int first, int num_columns, float* sum) {
  const int n = num_columns * 3;
  std::fill_n(sum, n, 0.0f);
  for (std::size_t t = 0; t < taps.weights.size(); ++t) {
    const std::int64_t row = taps.first + static_cast<std::int64_t>(t);
    const std::uint8_t* const pixels = image.pixels.data() + (row * image.size.width + first) * 3;
    const float weight = taps.weights[t];
    for (int i = 0; i < n; ++i) sum[i] += weight * static_cast<float>(pixels[i]);
  }
}

}  // namespace

void resample(const Image& image, const ImageBox& box, ImageSize size, Mirror mirror, float* out) {
  const auto rows = make_taps(box.y, box.height, size.height, image.size.height);
  const auto columns = make_taps(box.x, box.width, size.width, image.size.width);
  const int first = columns.front().first;
  const int num_columns = columns.back().first + static_cast<int>(columns.back().weights.size()) - first;
  // Rows first: whole rows vectorise, and the remaining work for the columns is small.
  std::vector<float> line(static_cast<std::size_t>(num_columns) * 3);
  for (int y = 0; y < size.height; ++y) {
    add_rows(image, rows[static_cast<std::size_t>(y)], first, num_columns, line.data());
    for (int x = 0; x < size.width; ++x) {
      const Taps& taps = columns[static_cast<std::size_t>(mirror == Mirror::kYes ? size.width - 1 - x : x)];
      const float* pixel = line.data() + static_cast<std::ptrdiff_t>(taps.first - first) * 3;
      float red = 0, green = 0, blue = 0;
      for (const float weight : taps.weights) {
        red += weight * pixel[0];
        green += weight * pixel[1];
        blue += weight * pixel[2];
        pixel += 3;
      }
      out[0] = red, out[1] = green, out[2] = blue;
      out += 3;
    }
  }
}

}  // namespace trireme
