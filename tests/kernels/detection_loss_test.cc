// The loss of a detector beside a plain reference with whole matrices of costs, written from the description
// in kernels/backend_detection_ops.h.
#include <algorithm>
#include <cmath>
#include <limits>
#include <numeric>

#include "tests/kernels/kernel_test.h"

namespace trireme::testing {
namespace {

constexpr float kInverse = 0.25f, kScale = 8.0f;

struct Case {
  std::int64_t pictures = 2, height = 64, width = 96, classes = 3, rows = 6;
  DType dtype = DType::kFloat32;

  std::int64_t anchors() const { return height * width / 64 + height * width / 256 + height * width / 1024; }
  std::int64_t numbers() const { return 5 + classes; }
};

struct Inputs {
  std::vector<float> predictions, targets, l1_weights;
};

struct Cell {
  double x, y, stride;
};

std::vector<Cell> cells_of(const Case& c) {
  std::vector<Cell> cells;
  for (const int stride : {8, 16, 32}) {
    for (int y = 0; y < c.height / stride; ++y) {
      for (int x = 0; x < c.width / stride; ++x) {
        cells.push_back({double(x), double(y), double(stride)});
      }
    }
  }
  return cells;
}

struct Corners {
  double left, top, right, bottom;
  double area() const { return (right - left) * (bottom - top); }
};

Corners corners(double x, double y, double width, double height) {
  return {x - width / 2, y - height / 2, x + width / 2, y + height / 2};
}

Corners predicted(const float* row, const Cell& cell) {
  return corners((row[0] + cell.x) * cell.stride, (row[1] + cell.y) * cell.stride,
                 std::exp(double(row[2])) * cell.stride, std::exp(double(row[3])) * cell.stride);
}

double iou(const Corners& a, const Corners& b) {
  const double width = std::min(a.right, b.right) - std::max(a.left, b.left);
  const double height = std::min(a.bottom, b.bottom) - std::max(a.top, b.top);
  if (width <= 0 || height <= 0) return 0;
  return width * height / (a.area() + b.area() - width * height);
}

double cross_entropy(double p, double target) {
  const double term =
      target * std::min(100.0, -std::log(p)) + (1 - target) * std::min(100.0, -std::log1p(-p));
  return term;
}

double sigmoid(double x) {
  return 1 / (1 + std::exp(-x));
}

// The object of every anchor of a picture.
std::vector<int> assigned(const Case& c, const float* predictions, const float* targets) {
  const std::vector<Cell> cells = cells_of(c);
  std::vector<int> objects;
  for (int g = 0; g < c.rows; ++g) {
    if (targets[5 * g] >= 0) objects.push_back(g);
  }
  std::vector<bool> is_candidate(cells.size());
  std::vector<std::vector<double>> costs(objects.size()), overlaps(objects.size());
  for (std::size_t o = 0; o < objects.size(); ++o) {
    const float* t = targets + 5 * objects[o];
    for (std::size_t a = 0; a < cells.size(); ++a) {
      const Cell& cell = cells[a];
      const double x = (cell.x + 0.5) * cell.stride, y = (cell.y + 0.5) * cell.stride;
      const Corners box = corners(t[1], t[2], t[3], t[4]);
      const bool in_box = x > box.left && x < box.right && y > box.top && y < box.bottom;
      const bool is_near = std::max(std::abs(x - t[1]), std::abs(y - t[2])) < 2.5 * cell.stride;
      if (in_box || is_near) is_candidate[a] = true;
      const float* row = predictions + a * c.numbers();
      const double u = iou(predicted(row, cell), box);
      double cost = -3 * std::log(u + 1e-8);
      for (int k = 0; k < c.classes; ++k) {
        cost += cross_entropy(std::sqrt(sigmoid(row[5 + k]) * sigmoid(row[4])), k == int(t[0]) ? 1 : 0);
      }
      costs[o].push_back(double(float(cost)) + (in_box && is_near ? 0 : 1e5));
      overlaps[o].push_back(float(u));
    }
  }
  std::vector<int> candidates;
  for (std::size_t a = 0; a < cells.size(); ++a) {
    if (is_candidate[a]) candidates.push_back(int(a));
  }
  std::vector<int> result(cells.size(), -1), takers(cells.size(), 0);
  for (std::size_t o = 0; o < objects.size(); ++o) {
    std::vector<double> largest;
    for (const int a : candidates) largest.push_back(overlaps[o][a]);
    std::ranges::sort(largest, std::greater());
    largest.resize(std::min<std::size_t>(10, largest.size()));
    const int k = std::max(1, int(std::accumulate(largest.begin(), largest.end(), 0.0)));
    std::vector<int> order = candidates;
    std::ranges::stable_sort(order, [&](int a, int b) { return costs[o][a] < costs[o][b]; });
    for (int i = 0; i < std::min<int>(k, int(order.size())); ++i) {
      result[order[i]] = objects[o];
      ++takers[order[i]];
    }
  }
  for (std::size_t a = 0; a < cells.size(); ++a) {
    if (takers[a] < 2) continue;
    std::size_t best = 0;
    for (std::size_t o = 1; o < objects.size(); ++o) {
      if (costs[o][a] < costs[best][a]) best = o;
    }
    result[a] = objects[best];
  }
  return result;
}

// The parts of one picture's loss. `moved` has changed predictions; overlaps as targets of classes still come
// from `predictions`.
std::array<double, 5> parts_of(const Case& c, const float* predictions, const std::vector<double>& moved,
                               const float* targets, double l1_weight, const std::vector<int>& objects) {
  const std::vector<Cell> cells = cells_of(c);
  std::array<double, 5> parts{};
  for (std::size_t a = 0; a < cells.size(); ++a) {
    const double* row = moved.data() + a * c.numbers();
    const Cell& cell = cells[a];
    const auto logistic = [](double x, double target) {
      return std::max(x, 0.0) - x * target + std::log1p(std::exp(-std::abs(x)));
    };
    parts[1] += logistic(row[4], objects[a] >= 0 ? 1 : 0);
    if (objects[a] < 0) continue;
    const float* t = targets + 5 * objects[a];
    const Corners box = corners(t[1], t[2], t[3], t[4]);
    const double u = iou(corners((row[0] + cell.x) * cell.stride, (row[1] + cell.y) * cell.stride,
                                 std::exp(row[2]) * cell.stride, std::exp(row[3]) * cell.stride),
                         box);
    parts[0] += 5 * (1 - u * u);
    const double fixed = iou(predicted(predictions + a * c.numbers(), cell), box);
    for (int k = 0; k < c.classes; ++k) parts[2] += logistic(row[5 + k], k == int(t[0]) ? fixed : 0);
    parts[3] += l1_weight * (std::abs(row[0] - (t[1] / cell.stride - cell.x)) +
                             std::abs(row[1] - (t[2] / cell.stride - cell.y)) +
                             std::abs(row[2] - std::log(t[3] / cell.stride + 1e-8)) +
                             std::abs(row[3] - std::log(t[4] / cell.stride + 1e-8)));
    parts[4] += 1;
  }
  return parts;
}

class DetectionLossTest : public KernelTest {
 protected:
  /// Boxes that overlap, some beyond the picture, and empty rows among them.
  Inputs inputs_of(const Case& c) {
    Inputs in{.predictions = random(c.pictures * c.anchors() * c.numbers(), 1.5f, c.dtype),
              .targets = random(c.pictures * c.rows * 5),
              .l1_weights = random(c.pictures, 1.0f)};
    for (float& weight : in.l1_weights) weight = weight > 0 ? weight : 0;
    for (std::int64_t i = 0; i < c.pictures * c.rows; ++i) {
      float* t = in.targets.data() + 5 * i;
      const bool is_empty = t[0] < -0.6f;
      t[0] = is_empty ? -1.0f : std::floor((t[0] + 1) / 2 * 0.999f * float(c.classes));
      t[1] = float(c.width) * (t[1] + 1) / 2, t[2] = float(c.height) * (t[2] + 1) / 2;
      t[3] = 4 + float(c.width) * (t[3] + 1) / 3, t[4] = 4 + float(c.height) * (t[4] + 1) / 3;
      if (is_empty) std::fill(t + 1, t + 5, 0.0f);
    }
    return in;
  }

  // Objects, parts, loss and count, gradient; the predictions after a call without gradient.
  static Outputs run(const Rig& rig, const Case& c, const Inputs& in) {
    const Shape shape{c.pictures, c.anchors(), c.numbers()};
    const DeviceArray gradient = rig.upload(shape, in.predictions, c.dtype),
                      read = rig.upload(shape, in.predictions, c.dtype);
    const DeviceArray targets = rig.upload({c.pictures, c.rows, 5}, in.targets);
    const DeviceArray weights = rig.upload({c.pictures}, in.l1_weights), scale = rig.scalar(kScale);
    const DeviceArray objects = rig.poisoned({c.pictures, c.anchors()}, DType::kInt32);
    const DeviceArray parts = rig.poisoned({c.pictures, kNumDetectionParts});
    const DeviceArray loss = rig.poisoned({}), count = rig.poisoned({}), again = rig.poisoned({});
    DetectionLossArgs args{.predictions = gradient,
                           .targets = targets,
                           .l1_weights = weights,
                           .objects = objects,
                           .parts = parts,
                           .loss = loss,
                           .count = count,
                           .grid = {.height = c.height, .width = c.width},
                           .inv_num_targets = kInverse,
                           .gradient_scale = scale,
                           .write_gradient = true};
    rig.run(args);
    args.predictions = read, args.loss = again, args.write_gradient = false;
    rig.run(args);
    EXPECT_TRUE(same_bits(loss.download(), again.download()));
    Outputs out{
        {}, parts.download(), loss.download(), count.download(), gradient.download(), read.download()};
    for (const std::int32_t object : objects.download_ints()) out[0].push_back(static_cast<float>(object));
    return out;
  }

  // Returns the number of foreground anchors.
  double expect_reference(const Case& c, const Inputs& in) {
    const Outputs out = same_bits_for_all_threads([&](const Rig& rig) { return run(rig, c, in); });
    std::vector<double> all_parts, gradient;
    double loss = 0, count = 0;
    for (std::int64_t b = 0; b < c.pictures; ++b) {
      const float* predictions = in.predictions.data() + b * c.anchors() * c.numbers();
      const float* targets = in.targets.data() + b * c.rows * 5;
      const std::vector<int> objects = assigned(c, predictions, targets);
      for (std::size_t a = 0; a < objects.size(); ++a) {
        EXPECT_EQ(out[0][b * c.anchors() + a], objects[a]) << "picture " << b << " anchor " << a;
      }
      std::vector<double> moved(predictions, predictions + c.anchors() * c.numbers());
      const auto parts = [&] { return parts_of(c, predictions, moved, targets, in.l1_weights[b], objects); };
      const auto total = [&](const std::array<double, 5>& p) { return p[0] + p[1] + p[2] + p[3]; };
      const std::array<double, 5> at = parts();
      all_parts.insert(all_parts.end(), at.begin(), at.end());
      loss += kInverse * total(at);
      count += at[4];
      for (std::size_t i = 0; i < moved.size(); ++i) {
        const double value = moved[i], step = 1e-7;
        moved[i] = value + step;
        const double above = total(parts());
        moved[i] = value - step;
        gradient.push_back((above - total(parts())) / (2 * step) * kInverse * kScale);
        moved[i] = value;
      }
    }
    expect_close(out[1], all_parts, 1e-6, "parts");
    expect_close(out[2], {loss}, 1e-6, "loss");
    EXPECT_EQ(out[3][0], count);
    expect_close(out[4], gradient, tolerance_of(c.dtype, kBackwardTolerance), "gradient");
    EXPECT_TRUE(same_bits(out[5], in.predictions)) << "the predictions were written";
    return count;
  }
};

TEST_P(DetectionLossTest, MatchesReference) {
  for (const DType dtype : kFloatTypes) {
    for (const std::int64_t rows : {1, 7}) {
      const Case c{.pictures = 3, .height = 32, .width = 64, .rows = rows, .dtype = dtype};
      SCOPED_TRACE(fmt::format("{} {} rows", name(dtype), rows));
      expect_reference(c, inputs_of(c));
    }
  }
}

TEST_P(DetectionLossTest, MoreObjectsThanAnchors) {
  const Case c{.pictures = 1, .height = 32, .width = 32, .classes = 2, .rows = 40};
  const double count = expect_reference(c, inputs_of(c));
  EXPECT_GT(count, 0);
  EXPECT_LE(count, 21);
}

TEST_P(DetectionLossTest, PicturesWithoutObjects) {
  const Case c{.pictures = 2, .height = 32, .width = 32, .rows = 3};
  Inputs in = inputs_of(c);
  for (std::size_t i = 0; i < in.targets.size(); i += 5) in.targets[i] = -1;
  EXPECT_EQ(expect_reference(c, in), 0);
  const Case none{.pictures = 1, .height = 32, .width = 32, .rows = 0};
  EXPECT_EQ(expect_reference(none, inputs_of(none)), 0);
}

// All costs of an object are equal, or the costs of two objects.
TEST_P(DetectionLossTest, EqualCostsGoByAnchorAndThenByObject) {
  const Case c{.pictures = 1, .height = 64, .width = 64, .classes = 2, .rows = 3};
  Inputs in = inputs_of(c);
  std::ranges::fill(in.predictions, 0.0f);
  in.targets = {1, 32, 32, 24, 24, 1, 32, 32, 24, 24, 0, 32, 32, 24, 24};
  EXPECT_GT(expect_reference(c, in), 0);
  const Outputs out = run(rig(), c, in);
  EXPECT_TRUE(std::ranges::all_of(out[0], [](float object) { return object == -1 || object == 0; }))
      << "the first of equal objects takes what several want";
}

TEST_P(DetectionLossTest, AnObjectFarOutsideGetsNoAnchor) {
  const Case c{.pictures = 1, .height = 32, .width = 32, .rows = 1};
  Inputs in = inputs_of(c);
  in.targets = {0, 500, 500, 10, 10};
  EXPECT_EQ(expect_reference(c, in), 0);
}

TEST_P(DetectionLossTest, ANanAnywhereInARowIsANan) {
  const Case c{.pictures = 2, .height = 32, .width = 32, .rows = 2};
  Inputs in = inputs_of(c);
  for (std::size_t i = 0; i < in.targets.size(); i += 5) {
    in.targets[i] = 1, in.targets[i + 1] = in.targets[i + 2] = 16, in.targets[i + 3] = in.targets[i + 4] = 20;
  }
  for (std::int64_t number = 0; number < c.numbers(); ++number) {
    Inputs broken = in;
    broken.predictions[5 * c.numbers() + number] = std::numeric_limits<float>::quiet_NaN();
    const Outputs out = run(rig(), c, broken);
    EXPECT_TRUE(std::isnan(out[2][0]) && std::isnan(out[4][5 * c.numbers() + 4]));
    EXPECT_TRUE(std::isnan(out[1][1]) && std::isfinite(out[1][kNumDetectionParts + 1]));
    EXPECT_EQ(out[0][5], -1);
    EXPECT_GT(out[3][0], 0);
  }
}

TRIREME_INSTANTIATE_KERNEL_TEST(DetectionLossTest);

}  // namespace
}  // namespace trireme::testing
