// Memory that ends where a page does that nobody may touch.
#pragma once

#include <cstddef>
#include <cstring>
#include <new>
#include <sys/mman.h>
#include <unistd.h>

namespace mmaemu::testing {

// `count` numbers whose end is the end of the memory, or whose beginning is its beginning.
template <class T>
class GuardedMemory {
 public:
  enum class Flush { end, beginning };
  GuardedMemory(std::size_t count, Flush flush) : count_(count) {
    const auto page = static_cast<std::size_t>(sysconf(_SC_PAGESIZE));
    const std::size_t inside = (count * sizeof(T) + page - 1) / page * page;
    bytes_ = inside + 2 * page;
    void* memory = mmap(nullptr, bytes_, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    if (memory == MAP_FAILED) throw std::bad_alloc();
    begin_ = static_cast<std::byte*>(memory);
    if (mprotect(begin_ + page, inside, PROT_READ | PROT_WRITE) != 0) throw std::bad_alloc();
    data_ = reinterpret_cast<T*>(flush == Flush::end ? begin_ + page + inside - count * sizeof(T)
                                                     : begin_ + page);
  }
  GuardedMemory(const GuardedMemory&) = delete;
  GuardedMemory& operator=(const GuardedMemory&) = delete;
  ~GuardedMemory() { munmap(begin_, bytes_); }

  T* data() { return data_; }
  std::size_t size() const { return count_; }

 private:
  std::size_t count_;
  std::size_t bytes_ = 0;
  std::byte* begin_ = nullptr;
  T* data_ = nullptr;
};

}  // namespace mmaemu::testing
