#include "go_asm.h"
#include "textflag.h"

// PARITY sets each bit of mask to the parity of all bits up to it. X15 is all ones.
#define PARITY(mask) \
	VMOVQ      mask, X3        \
	VPCLMULQDQ $0, X15, X3, X3 \
	VMOVQ      X3, mask

#define BYTES(value, to) \
	MOVL         $value, AX \
	VPBROADCASTB AX, to

// AHEAD loads the block at the address in at, a register that it changes, and begins what takes longest: to find quotes and
// their parity, the classes of bytes, and the followers of the bytes before them.
#define AHEAD(at) \
	VMOVDQU64  (at), Z5         \
	VMOVDQU64  -1(at), Z6       \
	VPCMPEQB   Z22, Z5, K5      \
	KMOVQ      K5, at           \
	VMOVQ      at, X14          \
	VPCLMULQDQ $0, X15, X14, X14 \
	VMOVDQA64  Z5, Z29          \
	VPERMI2B   Z17, Z16, Z29    \
	VPERMI2B   Z19, Z18, Z6

// TAKE goes on with the block that AHEAD has loaded, which is at SI, and loads the next one, so that its results are there
// when they are needed. It also finds what is special.
#define TAKE \
	VMOVDQA64 Z5, Z0          \
	VMOVDQA64 Z6, Z1          \
	VMOVDQA64 Z29, Z2         \
	KMOVQ     K5, K4          \
	KMOVQ     K5, AX          \
	VMOVQ     X14, DX         \
	LEAQ      64(SI), CX      \
	CMPQ      CX, last-16(SP) \
	CMOVQHI   SI, CX          \
	AHEAD(CX)                 \
	VPCMPB    $1, Z20, Z0, K1 \ // as signed numbers, control characters and bytes beyond ASCII are less than a space
	VPCMPEQB  Z21, Z0, K2     \
	KORTESTQ  K1, K2

#define CONSTANTS \
	VPCMPEQB  X15, X15, X15          \
	VMOVDQU64 ·classes+0(SB), Z16    \
	VMOVDQU64 ·classes+64(SB), Z17   \
	VMOVDQU64 ·followers+0(SB), Z18  \
	VMOVDQU64 ·followers+64(SB), Z19 \
	BYTES(0x20, Z20)                 \ // space
	BYTES(0x5C, Z21)                 \ // backslash
	BYTES(0x22, Z22)                 \ // quote
	BYTES(const_beginsName, Z23)     \
	BYTES(const_aColon, Z24)         \
	BYTES(const_anOpen, Z25)         \
	BYTES(const_aBracket, Z26)       \
	BYTES(const_aScalar, Z27)        \
	BYTES(const_beginsValue, Z28)

#define NEIGHBORS \
	VPTESTNMB Z1, Z2, K3      \
	KMOVQ     K3, R13         \
	ANDNQ     R13, BX, R13    \
	VPTESTMB  Z27, Z2, K1     \
	VPTESTMB  Z28, Z1, K1, K2 \
	KMOVQ     K2, R14         \
	ANDNQ     R14, BX, R14

#define ITEMS \
	VPTESTMB Z23, Z1, K3  \
	KMOVQ    K3, R15      \
	ANDNQ    R15, BX, R15

#define FINDBRACKETS \
	VPTESTMB Z26, Z2, K7  \
	KMOVQ    K7, R14      \
	ANDNQ    R14, BX, R14

#define BRACKETS(to) \
	KMOVQ K7, to     \
	ANDNQ to, BX, to

#define KINDS \
	VPTESTMB Z25, Z2, K1 \
	KMOVQ    K1, DX      \
	VPTESTMB Z20, Z0, K2 \
	KMOVQ    K2, R11

#define OPENING(to) KMOVQ K1, to
#define CURLY(to) KMOVQ K2, to
#define QUOTES(to) KMOVQ K4, to
#define SETQUOTES(from) KMOVQ from, K4

#define COLONS(to) \
	VPTESTMB Z24, Z2, K6 \
	KMOVQ    K6, to

#define PLAIN \
	VMOVDQU64 (SI), Z0        \
	VPCMPB    $1, Z20, Z0, K1 \
	VPCMPEQB  Z21, Z0, K2     \
	VPCMPEQB  Z22, Z0, K4     \
	KORQ      K1, K2, K1      \
	KORTESTQ  K1, K4

#define BEYOND \
	VPMOVB2M   Z0, K3     \
	KNOTQ      K3, K6     \
	VMOVDQU8.Z Z2, K6, Z2 \ // they have no class
	KMOVQ      K3, AX     \
	KMOVQ      K1, R13

#define MALFORMED \
	VBROADCASTI32X4 ·firstHigh(SB), Z10  \
	VBROADCASTI32X4 ·firstLow(SB), Z11   \
	VBROADCASTI32X4 ·secondHigh(SB), Z12 \
	BYTES(0x0F, Z13)                     \
	BYTES(0x60, Z30)                     \
	BYTES(0x70, Z31)                     \
	BYTES(0x80, Z4)                      \
	VMOVDQU64 -1(SI), Z8                 \
	VPSRLW    $4, Z8, Z9                 \
	VPANDQ    Z13, Z9, Z9                \
	VPSHUFB   Z9, Z10, Z9                \
	VPANDQ    Z13, Z8, Z8                \
	VPSHUFB   Z8, Z11, Z8                \
	VPANDQ    Z8, Z9, Z9                 \
	VPSRLW    $4, Z0, Z8                 \
	VPANDQ    Z13, Z8, Z8                \
	VPSHUFB   Z8, Z12, Z8                \
	VPANDQ    Z8, Z9, Z9                 \
	VMOVDQU64 -2(SI), Z8                 \
	VPSUBUSB  Z30, Z8, Z8                \
	VMOVDQU64 -3(SI), Z7                 \
	VPSUBUSB  Z31, Z7, Z7                \
	VPORQ     Z8, Z7, Z7                 \
	VPANDQ    Z4, Z7, Z7                 \
	VPXORQ    Z9, Z7, Z7                 \
	VPTESTMB  Z7, Z7, K3                 \
	KORTESTQ  K3, K3

#define BACKSLASHES KMOVQ K2, AX

#define BADESCAPES \
	VMOVDQA64  Z0, Z3                        \
	VMOVDQU64  ·escapable+0(SB), Z4          \
	VPERMI2B.Z ·escapable+64(SB), Z4, K6, Z3 \
	VPTESTNMB  Z3, Z3, K3                    \
	KMOVQ      K3, R15

#define UNSPECIAL
#define KEEP

// K4 has the quotes, K7 the brackets. The schedulers of a processor hold hardly more than the instructions for one block. Those
// that wait for a mask would keep it from the next block, if masks were not begun one block ahead.
//
// func walkBlocks512(w *walk, p *byte, n int) int
TEXT ·walkBlocks512(SB), NOSPLIT, $40-32
#include "walk_amd64.h"
