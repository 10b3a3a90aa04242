#include "go_asm.h"
#include "textflag.h"

// As in blocks_amd64.s, which says where these tables are from.
DATA ·firstHigh+0(SB)/8, $0x0202020202020202
DATA ·firstHigh+8(SB)/8, $0x4915012180808080
GLOBL ·firstHigh(SB), RODATA|NOPTR, $16
DATA ·firstLow+0(SB)/8, $0xCBCBCB8B8383A3E7
DATA ·firstLow+8(SB)/8, $0xCBCBDBCBCBCBCBCB
GLOBL ·firstLow(SB), RODATA|NOPTR, $16
DATA ·secondHigh+0(SB)/8, $0x0101010101010101
DATA ·secondHigh+8(SB)/8, $0x01010101BABAAEE6
GLOBL ·secondHigh(SB), RODATA|NOPTR, $16

// CLASS sets to to the classes of the bytes in text. V16 to V23 have classBits, V24 has 64 in each byte.
#define CLASS(text, to) \
	VUSHR $7, text.B16, to.B16 \
	VTBX  text.B16, [V16.B16, V17.B16, V18.B16, V19.B16], to.B16 \
	VEOR  text.B16, V24.B16, text.B16 \
	VTBX  text.B16, [V20.B16, V21.B16, V22.B16, V23.B16], to.B16

// MERGE sets even to the bits of low that are in the mask, and as many bits of high above them; odd to the other bits of high, and
// to those of low below them. others is the complement of the mask.
#define MERGE(shift, mask, others, low, high, even, odd) \
	VSHL  $shift, high.B16, even.B16   \
	VBIT  mask.B16, low.B16, even.B16  \
	VUSHR $shift, low.B16, odd.B16     \
	VBIT  others.B16, high.B16, odd.B16

// HALVES sets low to the low halves and high to the high halves of the bytes in first, and behind them of those in second.
#define HALVES(first, second, low, high) \
	VUZP1 second.B16, first.B16, low.B16  \
	VUZP2 second.B16, first.B16, high.B16 \
	VMOV  low.B16, V0.B16                 \
	VSLI  $4, high.B16, low.B16           \
	VSRI  $4, V0.B16, high.B16

// findPlanes gives each byte a class of eight bits, of which bit 0 is that of bytes beyond ASCII, and then transposes them: it
// gathers the bits of one kind, first those of two bytes, then of four, then of eight. The load gives the four bytes next to each
// other to four vectors.
//
// func findPlanes(to *planes, p *byte, n int)
TEXT ·findPlanes(SB), NOSPLIT, $0-24
	MOVD   to+0(FP), R0
	MOVD   p+8(FP), R1
	MOVD   n+16(FP), R2
	MOVD   $·classBits(SB), R3
	VLD1.P 64(R3), [V16.B16, V17.B16, V18.B16, V19.B16]
	VLD1   (R3), [V20.B16, V21.B16, V22.B16, V23.B16]
	VMOVI  $0x40, V24.B16
	VMOVI  $0x55, V25.B16
	VMOVI  $0xAA, V26.B16
	VMOVI  $0x33, V27.B16
	VMOVI  $0xCC, V28.B16

block:
	VLD4.P 64(R1), [V0.B16, V1.B16, V2.B16, V3.B16]
	CLASS(V0, V4)
	CLASS(V1, V5)
	CLASS(V2, V6)
	CLASS(V3, V7)
	MERGE(1, V25, V26, V4, V5, V8, V9)     // bits 0, 2, 4, 6 and 1, 3, 5, 7 of two bytes
	MERGE(1, V25, V26, V6, V7, V10, V11)
	MERGE(2, V27, V28, V8, V10, V4, V6)    // bits 0, 4 and 2, 6 of four bytes
	MERGE(2, V27, V28, V9, V11, V5, V7)    // bits 1, 5 and 3, 7
	HALVES(V4, V5, V12, V14)               // bits 0, 1 and 4, 5 of all bytes
	HALVES(V6, V7, V13, V15)               // bits 2, 3 and 6, 7
	VST1.P [V12.B16, V13.B16, V14.B16, V15.B16], 64(R0)
	SUBS   $1, R2, R2
	BNE    block
	RET

// FAULTS adds to V29 what is not zero if the 16 bytes at at end or are in a character that is not well formed. V16 to V18 have the three
// tables, V19 to V22 the low half, 0x60 and 0x70, and the highest bit of bytes.
#define FAULTS(at) \
	ADD   $(at-1), R0, R1              \
	VLD1  (R1), [V0.B16]               \
	ADD   $at, R0, R1                  \
	VLD1  (R1), [V1.B16]               \
	VUSHR $4, V0.B16, V2.B16           \
	VTBL  V2.B16, [V16.B16], V2.B16    \
	VAND  V19.B16, V0.B16, V0.B16      \
	VTBL  V0.B16, [V17.B16], V0.B16    \
	VAND  V0.B16, V2.B16, V2.B16       \
	VUSHR $4, V1.B16, V1.B16           \
	VTBL  V1.B16, [V18.B16], V1.B16    \
	VAND  V1.B16, V2.B16, V2.B16       \
	ADD   $(at-2), R0, R1              \
	VLD1  (R1), [V3.B16]               \
	VUMAX V20.B16, V3.B16, V3.B16      \
	VSUB  V20.B16, V3.B16, V3.B16      \
	ADD   $(at-3), R0, R1              \
	VLD1  (R1), [V4.B16]               \
	VUMAX V21.B16, V4.B16, V4.B16      \
	VSUB  V21.B16, V4.B16, V4.B16      \
	VORR  V3.B16, V4.B16, V4.B16       \
	VAND  V22.B16, V4.B16, V4.B16      \
	VEOR  V2.B16, V4.B16, V4.B16       \
	VORR  V4.B16, V29.B16, V29.B16

// func malformed(p *byte) bool
TEXT ·malformed(SB), NOSPLIT, $0-9
	MOVD  p+0(FP), R0
	MOVD  $·firstHigh(SB), R1
	VLD1  (R1), [V16.B16]
	MOVD  $·firstLow(SB), R1
	VLD1  (R1), [V17.B16]
	MOVD  $·secondHigh(SB), R1
	VLD1  (R1), [V18.B16]
	VMOVI $0x0F, V19.B16
	VMOVI $0x60, V20.B16 // 0xE0-0x80: the lead of three bytes
	VMOVI $0x70, V21.B16 // 0xF0-0x80: the lead of four
	VMOVI $0x80, V22.B16
	VEOR  V29.B16, V29.B16, V29.B16
	FAULTS(0)
	FAULTS(16)
	FAULTS(32)
	FAULTS(48)
	VMOV  V29.D[0], R1
	VMOV  V29.D[1], R2
	ORR   R1, R2, R1
	CMP   $0, R1
	CSET  NE, R1
	MOVB  R1, ret+8(FP)
	RET

// OVER sets to to the results of an instruction that takes two vectors, over V0 to V3.
#define OVER(op, to) \
	op V0.B16, V1.B16, V4.B16 \
	op V2.B16, V3.B16, to.B16 \
	op V4.B16, to.B16, to.B16

// ZERO sets to to a vector with a zero in some byte if a byte of V0 to V3 is that in value.
#define ZERO(value, to) \
	VEOR  V0.B16, value.B16, V4.B16  \
	VEOR  V1.B16, value.B16, V5.B16  \
	VEOR  V2.B16, value.B16, V6.B16  \
	VEOR  V3.B16, value.B16, to.B16  \
	VUMIN V4.B16, V5.B16, V4.B16     \
	VUMIN V6.B16, to.B16, to.B16     \
	VUMIN V4.B16, to.B16, to.B16

// func plainBlocks(p *byte, i, n int) int
TEXT ·plainBlocks(SB), NOSPLIT, $0-32
	MOVD  p+0(FP), R0
	MOVD  i+8(FP), R1
	MOVD  n+16(FP), R2
	ADD   R0, R1, R3
	SUB   $64, R2, R2
	VMOVI $0x22, V16.B16
	VMOVI $0x5C, V17.B16
	VMOVI $0x60, V18.B16
	VMOVI $0x80, V19.B16

loop:
	CMP    R2, R1
	BGT    done
	VLD1.P 64(R3), [V0.B16, V1.B16, V2.B16, V3.B16]
	ZERO(V16, V20)
	ZERO(V17, V21)
	OVER(VUMIN, V22)
	OVER(VUMAX, V23)
	VUMIN  V20.B16, V21.B16, V20.B16
	VADD   V18.B16, V22.B16, V22.B16   // sets the high bit if there are no control characters
	VEOR   V19.B16, V22.B16, V22.B16
	VORR   V22.B16, V23.B16, V23.B16
	VAND   V19.B16, V23.B16, V23.B16
	VEOR   V24.B16, V24.B16, V24.B16
	VCMEQ  V24.B16, V20.B16, V20.B16
	VORR   V20.B16, V23.B16, V23.B16
	VMOV   V23.D[0], R4
	VMOV   V23.D[1], R5
	ORR    R4, R5, R4
	CBNZ   R4, done
	ADD    $64, R1, R1
	B      loop

done:
	MOVD R1, ret+24(FP)
	RET
