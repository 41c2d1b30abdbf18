#include "runtime/data/image_view.h"

#include <algorithm>
#include <cmath>
#include <vector>

namespace trireme {
namespace {

struct Choice {
  ImageBox box;  // in pixels of the stored image
  Mirror mirror = Mirror::kNo;
  int shift_x = 0, shift_y = 0;  // offset of the box, in view pixels
};

ImageBox center_box(ImageSize size, double part) {
  const double side = std::min(size.width, size.height) * part;
  return {(size.width - side) / 2, (size.height - side) / 2, side, side};
}

Choice choose(ImageSize size, const ViewOptions& options, std::optional<ImageRandom> random) {
  if (!random) return {.box = center_box(size, options.center)};
  Choice choice;
  if (options.crop == ViewOptions::Crop::kRandomResized) {
    choice.box = draw_resized_crop(size, options, *random);
  } else {
    choice.box = center_box(size, options.center);
  }
  if (options.crop == ViewOptions::Crop::kPadded) {
    choice.shift_x = random->below(2 * options.padding + 1) - options.padding;
    choice.shift_y = random->below(2 * options.padding + 1) - options.padding;
  }
  if (options.flip && random->uniform() < 0.5) choice.mirror = Mirror::kYes;
  return choice;
}

int choose_reduction(const ImageBox& box, int size) {
  int reduction = 8;
  while (reduction > 1 && std::min(box.width, box.height) < static_cast<double>(size) * reduction)
    reduction /= 2;
  return reduction;
}

/// out[y][x] = view[y + shift_y][x + shift_x], black outside. Both [size, size, 3].
void shift_view(const std::vector<float>& view, int size, int shift_x, int shift_y, float* out) {
  for (int y = 0; y < size; ++y) {
    for (int x = 0; x < size; ++x, out += 3) {
      const int from_y = y + shift_y, from_x = x + shift_x;
      const bool inside = from_y >= 0 && from_y < size && from_x >= 0 && from_x < size;
      for (int c = 0; c < 3; ++c) {
        out[c] = inside ? view[static_cast<std::size_t>((from_y * size + from_x) * 3 + c)] : 0.0f;
      }
    }
  }
}

}  // namespace

void normalise_pixels(std::span<float> pixels, const std::array<double, 3>& mean,
                      const std::array<double, 3>& stddev) {
  std::array<float, 3> scale, bias;
  for (std::size_t c = 0; c < 3; ++c) {
    scale[c] = static_cast<float>(1.0 / (255.0 * stddev[c]));
    bias[c] = static_cast<float>(-mean[c] / stddev[c]);
  }
  for (std::size_t at = 0; at + 3 <= pixels.size(); at += 3) {
    for (std::size_t c = 0; c < 3; ++c) pixels[at + c] = pixels[at + c] * scale[c] + bias[c];
  }
}

ImageBox draw_resized_crop(ImageSize size, const ViewOptions& options, ImageRandom& random) {
  const double picture = static_cast<double>(size.num_pixels());
  const double log_low = std::log(options.aspect[0]), log_high = std::log(options.aspect[1]);
  for (int attempt = 0; attempt < 10; ++attempt) {
    const double area = picture * random.uniform(options.area[0], options.area[1]);
    const double aspect = std::exp(random.uniform(log_low, log_high));
    const int width = static_cast<int>(std::lround(std::sqrt(area * aspect)));
    const int height = static_cast<int>(std::lround(std::sqrt(area / aspect)));
    if (width < 1 || height < 1 || width > size.width || height > size.height) continue;
    const int y = random.below(size.height - height + 1), x = random.below(size.width - width + 1);
    return {static_cast<double>(x), static_cast<double>(y), static_cast<double>(width),
            static_cast<double>(height)};
  }
  const double aspect = static_cast<double>(size.width) / size.height;
  int width = size.width, height = size.height;
  if (aspect < options.aspect[0])
    height = std::max(1, static_cast<int>(std::lround(width / options.aspect[0])));
  if (aspect > options.aspect[1])
    width = std::max(1, static_cast<int>(std::lround(height * options.aspect[1])));
  return {static_cast<double>((size.width - width) / 2), static_cast<double>((size.height - height) / 2),
          static_cast<double>(width), static_cast<double>(height)};
}

void render_view(const ImageSource& source, std::int64_t index, const ViewOptions& options,
                 const std::optional<ImageRandom>& random, float* out) {
  Choice choice;
  const auto image = source.load(index, [&](ImageSize size) {
    choice = choose(size, options, random);
    return choose_reduction(choice.box, options.size);
  });
  const double scale = 1.0 / image->reduction;
  const ImageBox box{choice.box.x * scale, choice.box.y * scale, choice.box.width * scale,
                     choice.box.height * scale};
  const ImageSize size{options.size, options.size};
  if (choice.shift_x == 0 && choice.shift_y == 0) {
    resample(*image, box, size, choice.mirror, out);
  } else {
    std::vector<float> view(static_cast<std::size_t>(size.num_pixels()) * 3);
    resample(*image, box, size, choice.mirror, view.data());
    shift_view(view, options.size, choice.shift_x, choice.shift_y, out);
  }
  normalise_pixels({out, static_cast<std::size_t>(size.num_pixels()) * 3}, options.mean, options.stddev);
}

}  // namespace trireme
