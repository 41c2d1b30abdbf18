// Calls of C libraries that leave by longjmp, from C++.
//
// [Note: longjmp] libjpeg and libpng report an error by a callback that must not return. An exception may not
// cross their frames, and a longjmp may not skip a destructor. So every call into them happens in a plain
// function whose locals have no destructors, run by completes(); what it needs and makes lives in a session
// that its caller owns.
#pragma once

#include <csetjmp>

namespace trireme {

/// Runs work(session). False when it left by std::longjmp(session.escape, 1).
template <class Session>
bool completes(void (*work)(Session&), Session& session) {
  if (setjmp(session.escape) != 0) return false;
  work(session);
  return true;
}

}  // namespace trireme
