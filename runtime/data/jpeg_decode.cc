#include "runtime/data/jpeg_decode.h"

#include <cstdio>  // needed by jpeglib.h

#include <jpeglib.h>

#include <jerror.h>

#include <algorithm>

#include "runtime/data/c_escape.h"

namespace trireme {
namespace {

struct Session {
  std::jmp_buf escape;
  jpeg_error_mgr errors;
  jpeg_progress_mgr progress;
  jpeg_decompress_struct decoder;
  char message[JMSG_LENGTH_MAX] = {};
  const unsigned char* bytes = nullptr;
  unsigned long num_bytes = 0;       // NOLINT: libjpeg's type
  std::uint8_t* pixels = nullptr;    // rows of RGB
  std::uint8_t* cmyk_row = nullptr;  // buffer for one row
};

[[noreturn]] void leave(j_common_ptr decoder) {
  auto* session = static_cast<Session*>(decoder->client_data);
  decoder->err->format_message(decoder, session->message);
  std::longjmp(session->escape, 1);
}

/// Each scan of a progressive image visits all of its blocks, and an empty scan takes a few bytes: a file of
/// a megabyte could keep a worker busy for minutes. Encoders write about ten scans.
void limit_scans(j_common_ptr common) {
  constexpr int kMostScans = 500;
  if (reinterpret_cast<j_decompress_ptr>(common)->input_scan_number <= kMostScans) return;
  auto* session = static_cast<Session*>(common->client_data);
  std::snprintf(session->message, sizeof session->message, "it has more than %d scans", kMostScans);
  std::longjmp(session->escape, 1);
}

/// True if the bytes that libjpeg just skipped in search of a marker are few and zero: cameras write such
/// padding.
bool skipped_padding(const jpeg_decompress_struct& decoder) {
  constexpr int kMostPadding = 16;
  const auto* const session = static_cast<const Session*>(decoder.client_data);
  const unsigned char* const end = decoder.src->next_input_byte;
  const int count = decoder.err->msg_parm.i[0];
  if (count > kMostPadding || count > end - session->bytes) return false;
  return std::all_of(end - count, end, [](unsigned char byte) { return byte == 0; });
}

// [Note: damaged JPEGs] libjpeg continues after damage with grey or wrong pixels, which would be trained on;
// only its warnings reveal it. An invalid code or data that ends early is always damage. Extraneous bytes are
// damage after the first scan header: corrupted codes with other lengths need fewer bytes for all pixels, and
// many changed bytes show in no other way. Before that header, and after the end of the image, other programs
// leave extra bytes, and no pixel depends on them. Two kinds of damage are not detected, as the format has no
// checksum: bytes that change a coefficient but no code length, and code that resynchronises with the
// original number of blocks. tests/runtime/data/jpeg_damage_test.cc measures the remaining rate.
bool is_damage(j_common_ptr common) {
  switch (common->err->msg_code) {
    case JWRN_JPEG_EOF:
    case JWRN_HIT_MARKER:
    case JWRN_HUFF_BAD_CODE:
    case JWRN_ARITH_BAD_CODE:
    case JWRN_BOGUS_PROGRESSION:
    case JWRN_MUST_RESYNC:
      return true;
    case JWRN_EXTRANEOUS_DATA: {
      const auto& decoder = *reinterpret_cast<j_decompress_ptr>(common);
      return decoder.input_scan_number > 0 && !skipped_padding(decoder);
    }
    default:
      return false;
  }
}

void on_message(j_common_ptr decoder, int level) {
  if (level < 0 && is_damage(decoder)) leave(decoder);
}

void read_header(Session& session) {
  jpeg_create_decompress(&session.decoder);
  session.progress.progress_monitor = limit_scans;
  session.decoder.progress = &session.progress;
  jpeg_mem_src(&session.decoder, session.bytes, session.num_bytes);
  jpeg_read_header(&session.decoder, TRUE);
}

bool has_four_inks(const jpeg_decompress_struct& decoder) {
  return decoder.jpeg_color_space == JCS_CMYK || decoder.jpeg_color_space == JCS_YCCK;
}

void start(Session& session) {
  session.decoder.out_color_space = has_four_inks(session.decoder) ? JCS_CMYK : JCS_RGB;
  jpeg_start_decompress(&session.decoder);
}

/// x * y / 255, rounded, for 8-bit numbers.
std::uint8_t multiply_255(int x, int y) {
  const int product = x * y + 128;
  return static_cast<std::uint8_t>((product + (product >> 8)) >> 8);
}

// Inks are stored inverted: 255 is no ink.
void cmyk_to_rgb(const std::uint8_t* cmyk, std::uint8_t* rgb, JDIMENSION width) {
  for (JDIMENSION x = 0; x < width; ++x, cmyk += 4, rgb += 3) {
    for (int channel = 0; channel < 3; ++channel) rgb[channel] = multiply_255(cmyk[channel], cmyk[3]);
  }
}

void read_rows(Session& session) {
  jpeg_decompress_struct& decoder = session.decoder;
  const std::size_t row_bytes = std::size_t{decoder.output_width} * 3;
  while (decoder.output_scanline < decoder.output_height) {
    std::uint8_t* const rgb = session.pixels + decoder.output_scanline * row_bytes;
    JSAMPROW row = session.cmyk_row != nullptr ? session.cmyk_row : rgb;
    jpeg_read_scanlines(&decoder, &row, 1);
    if (session.cmyk_row != nullptr) cmyk_to_rgb(session.cmyk_row, rgb, decoder.output_width);
  }
  jpeg_finish_decompress(&decoder);  // data up to the end marker may also reveal damage
}

struct OwnedSession : Session {
  ~OwnedSession() { jpeg_destroy_decompress(&decoder); }
};

class Decoder {
 public:
  explicit Decoder(const EncodedImage& encoded) : encoded_(encoded) {
    session_.decoder = {};
    session_.decoder.err = jpeg_std_error(&session_.errors);
    session_.errors.error_exit = leave;
    session_.errors.emit_message = on_message;
    session_.decoder.client_data = &session_;
    session_.bytes = reinterpret_cast<const unsigned char*>(encoded.bytes.data());
    session_.num_bytes = encoded.bytes.size();
    run(read_header);
    check_image_size(encoded, size());
  }

  ImageSize size() const {
    return {static_cast<int>(session_.decoder.image_width), static_cast<int>(session_.decoder.image_height)};
  }

  Image decode(int reduction) {
    jpeg_decompress_struct& decoder = session_.decoder;
    decoder.scale_num = 1;
    decoder.scale_denom = static_cast<unsigned>(reduction);
    run(start);
    Image image{.size = {static_cast<int>(decoder.output_width), static_cast<int>(decoder.output_height)},
                .reduction = reduction};
    image.pixels.resize(static_cast<std::size_t>(image.size.num_pixels()) * 3);
    session_.pixels = image.pixels.data();
    std::vector<std::uint8_t> cmyk_row;
    if (has_four_inks(decoder)) {
      cmyk_row.resize(std::size_t{decoder.output_width} * 4);
      session_.cmyk_row = cmyk_row.data();
    }
    run(read_rows);
    return image;
  }

 private:
  void run(void (*work)(Session&)) {
    if (completes<Session>(work, session_)) return;
    throw BadImage(fmt::format("picture {} is not a whole JPEG: {}", encoded_.name, session_.message));
  }

  const EncodedImage& encoded_;
  OwnedSession session_;
};

}  // namespace

ImageSize read_jpeg_size(const EncodedImage& encoded) {
  return Decoder(encoded).size();
}

Image decode_jpeg(const EncodedImage& encoded, int reduction) {
  return Decoder(encoded).decode(reduction);
}

}  // namespace trireme
