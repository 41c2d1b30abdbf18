#include "launcher/host/standard_output.h"

#include <unistd.h>

#include <cerrno>
#include <cstdio>
#include <cstring>

#include "runtime/base/error.h"
#include "runtime/base/terminal_text.h"

namespace trireme {
namespace {

void put(std::string_view bytes) {
  std::fwrite(bytes.data(), 1, bytes.size(), stdout);
}

}  // namespace

void print_text(std::string_view text) {
  put(terminal_text(text));
}

void print_line(std::string_view line) {
  put(terminal_line(line) + "\n");
}

void print_emphasised(std::string_view text, bool is_terminal) {
  put((is_terminal ? "\x1b[32m" : "{+") + terminal_text(text) + (is_terminal ? "\x1b[0m" : "+}"));
}

void refresh_line(std::string_view line) {
  put("\r" + terminal_line(line));
  flush_output();
}

void clear_screen() {
  put("\x1b[H\x1b[2J");
}

void print_generated(std::string_view text) {
  if (::isatty(STDOUT_FILENO) == 1) {
    print_text(text);
  } else {
    put(text);
  }
  flush_output();
}

bool flush_output() {
  return std::fflush(stdout) == 0;
}

void check_output_written() {
  if (!flush_output() || std::ferror(stdout) != 0)
    throw Error(ErrorCode::kRuntime, "standard output cannot be written: {}", std::strerror(errno));
}

}  // namespace trireme
