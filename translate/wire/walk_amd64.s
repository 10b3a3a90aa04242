#include "go_asm.h"
#include "textflag.h"

// All ones, whose product with a mask is for each bit the parity of all bits up to it.
#define PARITY(mask) \
	VMOVQ      mask, X3          \
	VPCLMULQDQ $0, X15, X3, X3   \
	VMOVQ      X3, mask

#define BYTES(value, x, z) \
	MOVL         $value, AX \
	VPBROADCASTB AX, z

// NAMES finds names and the colons behind them. R15 has the commas and braces behind which a name must begin, AX the quotes,
// allowed what may stand there. It needs the text in DX, and adds faults to R13.
#define NAMES(allowed) \
	LEAQ  (R10)(R15*2), BX  \
	MOVQ  R15, R10          \
	SHRQ  $63, R10          \
	ANDNQ BX, allowed, CX   \
	ORQ   CX, R13           \
	ANDQ  AX, BX            \
	ADDQ  R12, BX           \
	XORL  R12, R12          \
	ADDQ  DX, BX            \ // carries through each name to its closing quote
	ADCQ  $0, R12           \
	ANDNQ BX, DX, BX        \
	LEAQ  (R11)(BX*2), CX   \
	MOVQ  BX, R11           \
	SHRQ  $63, R11          \
	KMOVQ K6, R15           \
	ANDNQ R15, DX, R15      \
	XORQ  CX, R15           \
	ORQ   R15, R13

// LATER appends the bits of mask, of the block at SI, to the list of what the caller checks, if there are any.
#define LATER(mask) \
	MOVQ    SI, CX       \
	SUBQ    p+8(FP), CX  \
	MOVQ    CX, (DI)     \
	MOVQ    mask, 8(DI)  \
	LEAQ    16(DI), CX   \
	TESTQ   mask, mask   \
	CMOVQNE CX, DI

// func walkBlocks(w *walk, p *byte, n int) int
TEXT ·walkBlocks(SB), NOSPLIT, $64-32
	MOVQ w+0(FP), DI
	MOVQ p+8(FP), SI
	MOVQ n+16(FP), CX
	SHLQ $6, CX
	LEAQ -64(SI)(CX*1), CX
	MOVQ CX, limit-8(SP)
	MOVQ walk_text(DI), R8
	MOVQ walk_stack(DI), R9
	MOVQ walk_item(DI), R10
	MOVQ walk_named(DI), R11
	MOVQ walk_inName(DI), R12
	MOVQ walk_escaped(DI), AX
	MOVQ AX, escaped-16(SP)
	MOVQ walk_beyond(DI), CX
	MOVQ CX, beyond-24(SP)
	ORQ  CX, AX
	MOVQ AX, uneasy-32(SP)
	LEAQ walk_later+(16*const_mostLater)(DI), CX
	MOVQ CX, full-40(SP)
	LEAQ walk_later(DI), DI

	VPCMPEQB  X15, X15, X15
	VMOVDQU64 ·classes+0(SB), Z16
	VMOVDQU64 ·classes+64(SB), Z17
	VMOVDQU64 ·followers+0(SB), Z18
	VMOVDQU64 ·followers+64(SB), Z19
	BYTES(0x20, X20, Z20)
	BYTES(0x5C, X21, Z21)
	BYTES(0x22, X22, Z22)
	BYTES(const_aComma, X23, Z23)
	BYTES(const_aColon, X24, Z24)
	BYTES(const_anOpen, X25, Z25)
	BYTES(const_aBracket, X26, Z26)
	BYTES(const_aScalar, X27, Z27)
	BYTES(const_beginsValue, X28, Z28)
	BYTES(const_escapable, X29, Z29)

block:
	CMPQ      SI, limit-8(SP)
	JA        done
	CMPQ      DI, full-40(SP)
	JAE       done
	VMOVDQU64 (SI), Z0
	VMOVDQU64 -1(SI), Z1
	VPCMPB    $1, Z20, Z0, K1 // as signed numbers, control characters and bytes beyond ASCII are less than a space
	VPCMPEQB  Z21, Z0, K2
	VMOVDQA64 Z0, Z2
	VPERMI2B  Z17, Z16, Z2
	VPERMI2B  Z19, Z18, Z1
	VPCMPEQB  Z22, Z0, K4
	KORTESTQ  K1, K2
	JNE       special
	CMPQ      uneasy-32(SP), $0
	JNE       special

plain:
	KMOVQ     K4, AX
	MOVQ      R8, BX
	NOTQ      BX
	ORQ       AX, BX
	JZ        inside
	MOVQ      AX, DX
	PARITY(DX)
	XORQ      R8, DX          // in a string, from its opening quote to before its closing one
	VPTESTNMB Z1, Z2, K3      // may not follow the byte before
	VPTESTMB  Z27, Z2, K1
	VPTESTMB  Z28, Z1, K1, K2 // where scalars begin
	VPTESTMB  Z23, Z2, K5     // commas
	VPTESTMB  Z24, Z2, K6     // colons
	VPTESTMB  Z26, Z2, K7     // brackets
	LEAQ      (DX)(DX*1), BX
	SUBQ      R8, BX          // behind a byte in a string
	KMOVQ     K3, R13
	ANDNQ     R13, BX, R13    // faults
	KMOVQ     K2, R14
	ANDNQ     R14, BX, R14
	LATER(R14)
	MOVQ      DX, R8
	SARQ      $63, R8
	KMOVQ     K5, R15
	ANDNQ     R15, DX, R15
	KMOVQ     K7, R14
	ANDNQ     R14, DX, R14
	TESTQ     R14, R14
	JNZ       brackets
	MOVQ      R9, BX
	ANDL      $1, BX
	NEGQ      BX
	ANDQ      BX, R15
	NAMES(AX)
	TESTQ     R13, R13
	JNZ       leave
	ADDQ      $64, SI
	JMP       block

brackets:
	MOVQ     DI, later-48(SP)
	MOVQ     $-1, upTo-56(SP)
	VPTESTMB Z25, Z2, K1
	KMOVQ    K1, CX           // opening brackets
	VPTESTMB Z20, Z0, K2
	KMOVQ    K2, DI           // bit 5, which { and } have and [ and ] have not
	MOVQ     R9, BX
	ANDL     $1, BX

bracket:
	TZCNTQ R14, AX
	MOVQ   R9, R15
	BTQ    AX, CX
	JCC    shut
	BTQ    AX, DI
	ADCQ   R9, R9
	JCS    leave

next:
	XORQ  R9, R15
	ADDQ  R15, R15
	ANDL  $2, R15
	SHLXQ AX, R15, R15
	XORQ  R15, BX  // toggled behind each bracket behind which the kind of container is another
	BLSRQ R14, R14
	JNZ   bracket
	JMP   matched

shut:
	SHRQ    $1, R9
	CMPQ    R9, $1
	JNE     next
	BLSMSKQ R14, R14
	MOVQ    R14, upTo-56(SP)

matched:
	PARITY(BX)                 // in objects
	ANDNQ CX, DX, CX
	KMOVQ K7, R14
	ANDNQ R14, DX, R14
	XORQ  CX, R14              // closing brackets
	MOVQ  BX, AX
	XORQ  DI, AX
	ANDQ  R14, AX
	ORQ   AX, R13              // that are not of the container's kind
	ANDQ  DI, CX               // {
	KMOVQ K5, R15
	ANDNQ R15, DX, R15
	ANDQ  BX, R15
	ORQ   CX, R15
	KMOVQ K4, AX
	ORQ   AX, R14
	MOVQ  later-48(SP), DI
	NAMES(R14)
	ANDQ  upTo-56(SP), R13
	JNZ   leave
	CMPQ  R9, $1
	JEQ   end
	ADDQ  $64, SI
	JMP   block

inside: // a string, with the whole block
	ADDQ      $64, SI
	CMPQ      uneasy-32(SP), $0
	JNE       block
	CMPQ      SI, limit-8(SP)
	JA        done
	VMOVDQU64 (SI), Z0
	VPCMPB    $1, Z20, Z0, K1
	VPCMPEQB  Z21, Z0, K2
	VPCMPEQB  Z22, Z0, K4
	KORQ      K1, K2, K1
	KORTESTQ  K1, K4
	JEQ       inside
	JMP       block

special: // control characters, backslashes and bytes beyond ASCII, here or at the end of the block before
	VPMOVB2M   Z0, K5
	KNOTQ      K5, K6
	VMOVDQU8.Z Z2, K6, Z2     // which have no class
	KMOVQ      K5, AX
	KMOVQ      K1, R13
	ANDNQ      R13, AX, R13
	TESTQ      R13, R13       // control characters
	JNZ        leave
	MOVQ       beyond-24(SP), BX
	MOVQ       AX, beyond-24(SP)
	ORQ        AX, BX
	JZ         ascii
	SHRQ       $61, AX
	MOVQ       AX, uneasy-32(SP)

	// Well-formed UTF-8, as in FAULTS.
	VBROADCASTI32X4 ·firstHigh(SB), Z10
	VBROADCASTI32X4 ·firstLow(SB), Z11
	VBROADCASTI32X4 ·secondHigh(SB), Z12
	BYTES(0x0F, X13, Z13)
	BYTES(0x60, X14, Z14)
	BYTES(0x70, X30, Z30)
	BYTES(0x80, X31, Z31)
	VMOVDQU64 -1(SI), Z8
	VPSRLW    $4, Z8, Z9
	VPANDQ    Z13, Z9, Z9
	VPSHUFB   Z9, Z10, Z9
	VPANDQ    Z13, Z8, Z8
	VPSHUFB   Z8, Z11, Z8
	VPANDQ    Z8, Z9, Z9
	VPSRLW    $4, Z0, Z8
	VPANDQ    Z13, Z8, Z8
	VPSHUFB   Z8, Z12, Z8
	VPANDQ    Z8, Z9, Z9
	VMOVDQU64 -2(SI), Z8
	VPSUBUSB  Z14, Z8, Z8
	VMOVDQU64 -3(SI), Z7
	VPSUBUSB  Z30, Z7, Z7
	VPORQ     Z8, Z7, Z7
	VPANDQ    Z31, Z7, Z7
	VPXORQ    Z9, Z7, Z7
	VPTESTMB  Z7, Z7, K5
	KORTESTQ  K5, K5
	JNE       leave

ascii:
	KMOVQ K2, AX              // backslashes
	MOVQ  escaped-16(SP), BX
	MOVQ  AX, CX
	ORQ   BX, CX
	JZ    plain

	// As in textBlocks, but the first byte may be escaped.
	ANDNQ     AX, BX, R14
	LEAQ      (R14)(R14*1), R15
	MOVQ      $0xAAAAAAAAAAAAAAAA, CX
	ORQ       CX, R15
	SUBQ      R14, R15
	XORQ      CX, R15
	MOVQ      AX, R14
	ORQ       BX, R14
	XORQ      R15, R14        // escaped bytes
	ANDQ      AX, R15
	SHRQ      $63, R15
	MOVQ      R15, escaped-16(SP)
	MOVQ      beyond-24(SP), BX
	SHRQ      $61, BX
	ORQ       R15, BX
	MOVQ      BX, uneasy-32(SP)
	VPTESTNMB Z29, Z2, K5
	KMOVQ     K5, R15
	ANDQ      R14, R15        // that are u or a fault
	LATER(R15)
	KMOVQ     K4, AX
	ANDNQ     AX, R14, AX
	KMOVQ     AX, K4
	JMP       plain

leave:
	MOVQ $-1, SI
	JMP  return

end:
	BSRQ upTo-56(SP), AX
	LEAQ 1(SI)(AX*1), SI
	SUBQ p+8(FP), SI
	JMP  return

done:
	SUBQ p+8(FP), SI

return:
	MOVQ w+0(FP), BX
	MOVQ R8, walk_text(BX)
	MOVQ R9, walk_stack(BX)
	MOVQ R10, walk_item(BX)
	MOVQ R11, walk_named(BX)
	MOVQ R12, walk_inName(BX)
	MOVQ escaped-16(SP), AX
	MOVQ AX, walk_escaped(BX)
	MOVQ beyond-24(SP), AX
	MOVQ AX, walk_beyond(BX)
	LEAQ walk_later(BX), AX
	SUBQ AX, DI
	SHRQ $4, DI
	MOVQ DI, walk_laters(BX)
	VZEROUPPER
	MOVQ SI, ret+24(FP)
	RET
