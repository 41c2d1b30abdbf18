#include "runtime/data/png_decode.h"

#include <png.h>

#include <cstring>

#include "runtime/data/c_escape.h"

namespace trireme {
namespace {

struct Session {
  std::jmp_buf escape;
  png_structp png = nullptr;
  png_infop info = nullptr;
  char message[128] = {};
  const std::byte* bytes = nullptr;
  std::size_t num_bytes = 0, used = 0;
  int num_passes = 1;
  std::uint8_t* pixels = nullptr;  // rows of RGB
};

struct OwnedSession : Session {
  ~OwnedSession() { png_destroy_read_struct(&png, &info, nullptr); }
};

[[noreturn]] void on_error(png_structp png, png_const_charp message) {
  auto* session = static_cast<Session*>(png_get_error_ptr(png));
  std::strncpy(session->message, message, sizeof session->message - 1);
  std::longjmp(session->escape, 1);
}

void on_warning(png_structp, png_const_charp) {}

void read_bytes(png_structp png, png_bytep out, std::size_t count) {
  auto* session = static_cast<Session*>(png_get_io_ptr(png));
  if (count > session->num_bytes - session->used) png_error(png, "it ends too early");
  std::memcpy(out, session->bytes + session->used, count);
  session->used += count;
}

void read_header(Session& session) {
  session.info = png_create_info_struct(session.png);
  if (session.info == nullptr) png_error(session.png, "out of memory");
  png_set_read_fn(session.png, &session, read_bytes);
  // Our limit is on the number of pixels; libpng's would reject long, thin images.
  png_set_user_limits(session.png, PNG_UINT_31_MAX, PNG_UINT_31_MAX);
  png_read_info(session.png, session.info);
}

void start(Session& session) {
  png_set_palette_to_rgb(session.png);
  if (png_get_color_type(session.png, session.info) == PNG_COLOR_TYPE_GRAY &&
      png_get_bit_depth(session.png, session.info) < 8) {
    png_set_expand_gray_1_2_4_to_8(session.png);
  }
  png_set_scale_16(session.png);
  png_set_gray_to_rgb(session.png);
  png_set_strip_alpha(session.png);
  session.num_passes = png_set_interlace_handling(session.png);
  png_read_update_info(session.png, session.info);
  const std::size_t width = png_get_image_width(session.png, session.info);
  if (png_get_rowbytes(session.png, session.info) != 3 * width)
    png_error(session.png, "its colours are not known");
}

void read_rows(Session& session) {
  const std::size_t row_bytes = png_get_rowbytes(session.png, session.info);
  const png_uint_32 height = png_get_image_height(session.png, session.info);
  for (int pass = 0; pass < session.num_passes; ++pass) {
    for (png_uint_32 y = 0; y < height; ++y)
      png_read_row(session.png, session.pixels + y * row_bytes, nullptr);
  }
  png_read_end(session.png, nullptr);  // verifies the checksum of the pixels
}

class Decoder {
 public:
  explicit Decoder(const EncodedImage& encoded) : encoded_(encoded) {
    session_.bytes = encoded.bytes.data();
    session_.num_bytes = encoded.bytes.size();
    session_.png = png_create_read_struct(PNG_LIBPNG_VER_STRING, &session_, on_error, on_warning);
    if (session_.png == nullptr) throw Error(ErrorCode::kRuntime, "libpng cannot start: out of memory");
    run(read_header);
    // libpng rejects sides beyond 31 bits.
    size_ = {static_cast<int>(png_get_image_width(session_.png, session_.info)),
             static_cast<int>(png_get_image_height(session_.png, session_.info))};
    check_image_size(encoded, size_);
  }

  ImageSize size() const { return size_; }

  Image decode() {
    run(start);
    Image image{.size = size_};
    image.pixels.resize(static_cast<std::size_t>(size_.num_pixels()) * 3);
    session_.pixels = image.pixels.data();
    run(read_rows);
    return image;
  }

 private:
  void run(void (*work)(Session&)) {
    if (completes<Session>(work, session_)) return;
    throw BadImage(fmt::format("picture {} is not a whole PNG: {}", encoded_.name, session_.message));
  }

  const EncodedImage& encoded_;
  OwnedSession session_;
  ImageSize size_;
};

}  // namespace

ImageSize read_png_size(const EncodedImage& encoded) {
  return Decoder(encoded).size();
}

Image decode_png(const EncodedImage& encoded) {
  return Decoder(encoded).decode();
}

}  // namespace trireme
