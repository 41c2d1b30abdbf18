#include "runtime/data/png_encode.h"

#include <png.h>

#include <algorithm>
#include <cmath>
#include <cstring>

#include "runtime/base/error.h"
#include "runtime/data/c_escape.h"

namespace trireme {
namespace {

struct WriteSession {
  std::jmp_buf escape;
  png_structp png = nullptr;
  png_infop info = nullptr;
  char message[128] = {};
  const Image* image = nullptr;
  std::vector<std::byte>* out = nullptr;

  WriteSession() = default;
  WriteSession(const WriteSession&) = delete;
  ~WriteSession() { png_destroy_write_struct(&png, &info); }
};

[[noreturn]] void on_write_error(png_structp png, png_const_charp message) {
  auto* session = static_cast<WriteSession*>(png_get_error_ptr(png));
  std::strncpy(session->message, message, sizeof session->message - 1);
  std::longjmp(session->escape, 1);
}

void on_write_warning(png_structp, png_const_charp) {}

void append_bytes(png_structp png, png_bytep bytes, std::size_t count) {
  std::vector<std::byte>& out = *static_cast<WriteSession*>(png_get_io_ptr(png))->out;
  const auto* first = reinterpret_cast<const std::byte*>(bytes);
  out.insert(out.end(), first, first + count);
}

void flush_nothing(png_structp) {}

// See [Note: longjmp].
void write_png(WriteSession& session) {
  session.info = png_create_info_struct(session.png);
  if (session.info == nullptr) png_error(session.png, "out of memory");
  png_set_write_fn(session.png, &session, append_bytes, flush_nothing);
  const auto width = static_cast<png_uint_32>(session.image->size.width),
             height = static_cast<png_uint_32>(session.image->size.height);
  png_set_IHDR(session.png, session.info, width, height, 8, PNG_COLOR_TYPE_RGB, PNG_INTERLACE_NONE,
               PNG_COMPRESSION_TYPE_DEFAULT, PNG_FILTER_TYPE_DEFAULT);
  png_write_info(session.png, session.info);
  for (png_uint_32 y = 0; y < height; ++y) {
    png_write_row(session.png, session.image->pixels.data() + std::size_t{3} * width * y);
  }
  png_write_end(session.png, nullptr);
}

}  // namespace

std::vector<std::byte> encode_png(const Image& image) {
  TRIREME_CHECK(image.size.num_pixels() > 0 && std::ssize(image.pixels) == 3 * image.size.num_pixels(),
                "an image of {} x {} has {} bytes of pixels", image.size.width, image.size.height,
                image.pixels.size());
  std::vector<std::byte> out;
  WriteSession session;
  session.image = &image;
  session.out = &out;
  session.png = png_create_write_struct(PNG_LIBPNG_VER_STRING, &session, on_write_error, on_write_warning);
  if (session.png == nullptr) throw Error(ErrorCode::kRuntime, "libpng cannot start: out of memory");
  if (!completes<WriteSession>(write_png, session)) {
    throw Error(ErrorCode::kRuntime, "libpng cannot write an image of {} x {}: {}", image.size.width,
                image.size.height, session.message);
  }
  return out;
}

Image image_of(std::span<const float> values, const ImageSize& size) {
  TRIREME_CHECK(std::ssize(values) == 3 * size.num_pixels(), "an image of {} x {} has {} values", size.width,
                size.height, values.size());
  Image image;
  image.size = size;
  for (const float value : values) {
    const float level = std::isnan(value) ? 0.0f : std::clamp(127.5f * (value + 1.0f), 0.0f, 255.0f);
    image.pixels.push_back(static_cast<std::uint8_t>(std::lround(level)));
  }
  return image;
}

Image grid_of(std::span<const Image> images, int columns) {
  constexpr int kGap = 2;
  TRIREME_CHECK(!images.empty() && columns > 0, "a grid of {} images in {} columns", images.size(), columns);
  const ImageSize size = images[0].size;
  const int count = static_cast<int>(images.size()), rows = (count + columns - 1) / columns;
  Image grid;
  grid.size = {.width = std::min(columns, count) * (size.width + kGap) + kGap,
               .height = rows * (size.height + kGap) + kGap};
  grid.pixels.resize(static_cast<std::size_t>(3 * grid.size.num_pixels()));
  for (int i = 0; i < count; ++i) {
    const Image& image = images[static_cast<std::size_t>(i)];
    TRIREME_CHECK(image.size == size, "a grid has images of one size, not {} x {} and {} x {}", size.width,
                  size.height, image.size.width, image.size.height);
    const int left = kGap + i % columns * (size.width + kGap),
              top = kGap + i / columns * (size.height + kGap);
    for (int y = 0; y < size.height; ++y) {
      const auto from = image.pixels.begin() + std::ptrdiff_t{3} * y * size.width;
      std::copy_n(from, 3 * size.width,
                  grid.pixels.begin() + 3 * (std::ptrdiff_t{top + y} * grid.size.width + left));
    }
  }
  return grid;
}

}  // namespace trireme
