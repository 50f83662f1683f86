// v4 and h4. Every instruction is defined to the bit by IEEE 754 or PTX.
#include "fast_tile.h"

template <bool kMaxima, class A, class B, int kBlock>
struct ExponentsOf {
  using Type = SumsOfPowers<A, B, kBlock>;
};
template <class A, class B, int kBlock>
struct ExponentsOf<true, A, B, kBlock> {
  using Type = MaximaOfSums<A, B, kBlock>;
};

template <class A, class B, int kBlock>
using Tile = FastTile<A, B, kBlock,
                      typename ExponentsOf<(kArchitecture >= 90 && kArchitecture < 120), A, B, kBlock>::Type>;

using V4E4m3E4m3 = Tile<E4m3, E4m3, 16>;
using V4E4m3E5m2 = Tile<E4m3, E5m2, 16>;
using V4E5m2E4m3 = Tile<E5m2, E4m3, 16>;
using H4E4m3E4m3 = Tile<E4m3, E4m3, 32>;
using H4E4m3E5m2 = Tile<E4m3, E5m2, 32>;
using H4E5m2E4m3 = Tile<E5m2, E4m3, 32>;

MMAEMU_TILED(mmaemu_v4_e4m3e4m3, V4E4m3E4m3)
MMAEMU_TILED(mmaemu_v4_e4m3e5m2, V4E4m3E5m2)
MMAEMU_TILED(mmaemu_v4_e5m2e4m3, V4E5m2E4m3)
MMAEMU_TILED(mmaemu_h4_e4m3e4m3, H4E4m3E4m3)
MMAEMU_TILED(mmaemu_h4_e4m3e5m2, H4E4m3E5m2)
MMAEMU_TILED(mmaemu_h4_e5m2e4m3, H4E5m2E4m3)
