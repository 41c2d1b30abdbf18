#include "tests/support/picture_files.h"

#include <cstdio>  // jpeglib.h wants it
#include <cstdlib>

#include <jpeglib.h>
#include <png.h>

namespace trireme::testing {
namespace {

void append(png_structp png, png_bytep bytes, std::size_t count) {
  static_cast<std::string*>(png_get_io_ptr(png))->append(reinterpret_cast<const char*>(bytes), count);
}

void ignore_flush(png_structp) {}

}  // namespace

std::string encode_jpeg(const JpegOptions& options, const std::vector<std::uint8_t>& pixels) {
  jpeg_compress_struct encoder{};
  jpeg_error_mgr errors;
  encoder.err = jpeg_std_error(&errors);  // ends the process: only the test can be wrong
  jpeg_create_compress(&encoder);
  unsigned char* data = nullptr;
  unsigned long size = 0;  // NOLINT: libjpeg's type
  jpeg_mem_dest(&encoder, &data, &size);
  encoder.image_width = static_cast<JDIMENSION>(options.width);
  encoder.image_height = static_cast<JDIMENSION>(options.height);
  encoder.input_components = options.channels;
  encoder.in_color_space = options.channels == 1 ? JCS_GRAYSCALE : options.channels == 3 ? JCS_RGB : JCS_CMYK;
  jpeg_set_defaults(&encoder);
  jpeg_set_quality(&encoder, options.quality, TRUE);
  if (options.progressive) jpeg_simple_progression(&encoder);
  jpeg_start_compress(&encoder, TRUE);
  const auto row_bytes = static_cast<std::size_t>(options.width * options.channels);
  while (encoder.next_scanline < encoder.image_height) {
    JSAMPROW row = const_cast<std::uint8_t*>(pixels.data()) + encoder.next_scanline * row_bytes;
    jpeg_write_scanlines(&encoder, &row, 1);
  }
  jpeg_finish_compress(&encoder);
  jpeg_destroy_compress(&encoder);
  std::string bytes(reinterpret_cast<const char*>(data), size);
  std::free(data);
  return bytes;
}

std::string encode_png(const PngOptions& options, const std::vector<std::uint8_t>& rows) {
  std::string bytes;
  png_structp png = png_create_write_struct(PNG_LIBPNG_VER_STRING, nullptr, nullptr, nullptr);
  png_infop info = png_create_info_struct(png);
  png_set_write_fn(png, &bytes, append, ignore_flush);
  png_set_IHDR(png, info, static_cast<png_uint_32>(options.width), static_cast<png_uint_32>(options.height),
               options.bit_depth, options.color_type,
               options.interlaced ? PNG_INTERLACE_ADAM7 : PNG_INTERLACE_NONE, PNG_COMPRESSION_TYPE_DEFAULT,
               PNG_FILTER_TYPE_DEFAULT);
  std::vector<png_color> palette;
  for (std::size_t i = 0; i + 2 < options.palette.size(); i += 3) {
    palette.push_back({options.palette[i], options.palette[i + 1], options.palette[i + 2]});
  }
  if (!palette.empty()) png_set_PLTE(png, info, palette.data(), static_cast<int>(palette.size()));
  png_write_info(png, info);
  const std::size_t row_bytes = png_get_rowbytes(png, info);
  const bool whole = rows.size() == row_bytes * static_cast<std::size_t>(options.height);
  const int num_passes = png_set_interlace_handling(png);
  for (int pass = 0; pass < num_passes; ++pass) {
    for (std::size_t at = 0; at < rows.size(); at += row_bytes) png_write_row(png, rows.data() + at);
  }
  if (whole) png_write_end(png, info);
  png_destroy_write_struct(&png, &info);
  return bytes;
}

std::vector<std::uint8_t> gradient(int width, int height, std::uint8_t blue) {
  std::vector<std::uint8_t> pixels;
  const auto part = [](int at, int length) {
    return static_cast<std::uint8_t>(length > 1 ? at * 255 / (length - 1) : 0);
  };
  for (int y = 0; y < height; ++y) {
    for (int x = 0; x < width; ++x) pixels.insert(pixels.end(), {part(x, width), part(y, height), blue});
  }
  return pixels;
}

}  // namespace trireme::testing
