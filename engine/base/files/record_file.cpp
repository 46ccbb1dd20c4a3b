#include "engine/base/files/record_file.h"

#include <unistd.h>

#include "engine/base/files/file.h"

namespace gemel {

void RecordFile::append(std::string_view record) {
  const off_t end = ::lseek(file_.get(), 0, SEEK_END);
  try {
    FileWriter(file_.get(), path_).write(record);
  } catch (...) {
    // What fitted of it would be taken for the beginning of the next one. Taking it out needs no room.
    if (end >= 0) [[maybe_unused]]
      const int done = ::ftruncate(file_.get(), end);
    throw;
  }
}

}  // namespace gemel
